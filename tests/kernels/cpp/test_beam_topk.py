"""The likeliest continuations straight from scores are those that log-probabilities of all tokens give."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from kit.kernels.decoding import beam_topk

pytestmark = pytest.mark.usefixtures("native")
NOTHING = float("-inf")
NONE = torch.empty(0, dtype=torch.long)


def wanted(scores: Tensor, never: Tensor, live: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """In float64, all of them sorted; of equal ones the earlier first."""
    log = scores.double().log_softmax(1).index_fill(1, never, NOTHING)
    total = (live.reshape(-1, 1) + log).view(live.shape[0], -1)
    best, place = total.sort(dim=1, descending=True, stable=True)
    most = min(count, total.shape[1])
    return best[:, :most], place[:, :most] // scores.shape[1], place[:, :most] % scores.shape[1]


@pytest.mark.parametrize("size", [1, 2, 15, 63, 64, 65, 200, 8000])
@pytest.mark.parametrize("width", [1, 2, 5, 6])
@pytest.mark.parametrize("count", [1, 3, 10, 40])
def test_they_are_the_best_of_all(size: int, width: int, count: int) -> None:
    torch.manual_seed(size + width)
    scores, live = 4 * torch.randn(3 * width, size), torch.randn(3, width, dtype=torch.float64)
    never = torch.tensor([0, size - 1]).unique()
    found, right = beam_topk(scores, never, live, count), wanted(scores, never, live, count)
    possible = right[0] > NOTHING
    assert torch.allclose(found[0], right[0], atol=1e-5)
    assert torch.equal(found[1][possible], right[1][possible]) and torch.equal(found[2][possible], right[2][possible])
    other = beam_topk(scores.roll(1, 1), never, live, count)
    assert size < 4 or not torch.equal(found[2], other[2]), "other scores, other tokens"


def test_equal_totals_come_in_order_and_rows_may_lie_apart() -> None:
    scores = torch.zeros(2, 500)[:, :130]
    _, row, token = beam_topk(scores, NONE, torch.zeros(1, 2, dtype=torch.float64), 4)
    assert row.tolist() == [[0, 0, 0, 0]] and token.tolist() == [[0, 1, 2, 3]]


def test_dead_rows_and_hidden_tokens_come_last_with_nothing() -> None:
    live = torch.tensor([[NOTHING, 0.0]], dtype=torch.float64)
    total, row, token = beam_topk(torch.zeros(2, 3), torch.tensor([1]), live, 6)
    assert row[0, :2].tolist() == [1, 1] and token[0, :2].tolist() == [0, 2]
    assert (total[0, 2:] == NOTHING).all() and (total[0, :2] > NOTHING).all()


def test_a_row_without_any_chance_gives_nothing() -> None:
    total, _, _ = beam_topk(torch.full((1, 70), NOTHING), NONE, torch.zeros(1, 1, dtype=torch.float64), 2)
    assert (total == NOTHING).all()


def test_what_is_not_a_number_is_not_overlooked() -> None:
    scores = torch.zeros(2, 100)
    scores[1, 70] = float("nan")
    total, _, token = beam_topk(scores, torch.tensor([0]), torch.zeros(2, 1, dtype=torch.float64), 2)
    assert total[0].isfinite().all() and total[1].isnan().all() and token[1].tolist() == [1, 2]


def test_what_does_not_fit_is_refused() -> None:
    live = torch.zeros(1, 3, dtype=torch.float64)
    for scores, rows in (
        (torch.zeros(2, 5), live),
        (torch.zeros(3, 5).double(), live),
        (torch.zeros(3, 5), live.float()),
    ):
        with pytest.raises(RuntimeError, match="no choice"):
            torch.ops.kit.beam_topk(scores, NONE, rows, 1)
