"""Cross entropy equals torch's own, and each way of smoothing the formula it is named after."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from kit_objective.cross_entropy import Smoothing, cross_entropy

N, V, PADDING = 7, 11, 0


def scores() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    values = 5 * torch.randn(N, V, generator=generator, dtype=torch.float64)
    return values.requires_grad_(), torch.randint(1, V, (N,), generator=generator)


def torch_formula(scores_NV: Tensor, gold_N: Tensor, amount: float) -> Tensor:
    """Over all choices, the right one included."""
    return F.cross_entropy(scores_NV, gold_N, reduction="sum", label_smoothing=amount)


def fairseq_formula(scores_NV: Tensor, gold_N: Tensor, amount: float) -> Tensor:
    """(1 - e - e/(V-1)) times the likelihood of the right one, e/(V-1) times the sum over all."""
    surprise_NV = -scores_NV.log_softmax(1)
    each = amount / (V - 1)
    right_N = surprise_NV.gather(1, gold_N[:, None])[:, 0]
    return ((1 - amount - each) * right_N + each * surprise_NV.sum(1)).sum()


def joeynmt_formula(scores_NV: Tensor, gold_N: Tensor, amount: float) -> Tensor:
    """Cross entropy with a filled-in distribution: e/(V-2) everywhere, 0 at padding, 1 - e at the right one."""
    smooth_NV = torch.full_like(scores_NV, amount / (V - 2)).detach()
    smooth_NV.scatter_(1, gold_N[:, None], 1 - amount)
    smooth_NV[:, PADDING] = 0
    return -(smooth_NV * scores_NV.log_softmax(1)).sum()


FORMULAS = {"all": torch_formula, "others": fairseq_formula, "others_but_padding": joeynmt_formula}


@pytest.mark.parametrize("amount", [0.0, 0.1, 0.6])
@pytest.mark.parametrize("spread", FORMULAS)
def test_smoothing_is_the_formula_it_is_named_after(spread, amount):
    ours, gold = scores()
    theirs, _ = scores()
    loss, surprise = cross_entropy(ours, gold, Smoothing(amount, spread))
    wanted = FORMULAS[spread](theirs, gold, amount)
    assert torch.allclose(loss, wanted, rtol=1e-12)
    (3 * loss).backward()
    (3 * wanted).backward()
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-12)
    assert torch.allclose(surprise, F.cross_entropy(theirs, gold, reduction="sum"), rtol=1e-12)
    assert not surprise.requires_grad


@pytest.mark.parametrize("spread", FORMULAS)
def test_what_choices_get_sums_to_one(spread):
    right, other, padding = Smoothing(0.3, spread).weights(V)
    assert right + padding + (V - 2) * other == pytest.approx(1)


def test_half_precision_scores_are_summed_in_single():
    values, gold = scores()
    half = values.detach().bfloat16().requires_grad_()
    loss, _ = cross_entropy(half, gold)
    assert loss.dtype == torch.float32
    loss.backward()
    assert half.grad is not None and half.grad.dtype == torch.bfloat16
    assert torch.allclose(loss, F.cross_entropy(half.detach().float(), gold, reduction="sum"), rtol=1e-6)


def test_no_predictions_cost_nothing():
    empty = torch.zeros(0, V, requires_grad=True)
    loss, _ = cross_entropy(empty, torch.zeros(0, dtype=torch.long), Smoothing(0.1))
    assert loss.item() == 0


def test_a_large_score_does_not_overflow():
    loss, _ = cross_entropy(torch.tensor([[1e4, -1e4, 0.0]]), torch.tensor([1]))
    assert loss.item() == 2e4


def test_scores_of_a_product_give_their_memory_to_the_gradient():
    torch.manual_seed(0)
    x, table = torch.randn(300, 7, dtype=torch.float64), torch.randn(V, 7, dtype=torch.float64)
    gold = torch.randint(0, V, (300,))
    ours, theirs = (table.clone().requires_grad_() for _ in range(2))
    product = F.linear(x, ours)
    loss, _ = cross_entropy(product, gold)
    wanted = F.cross_entropy(F.linear(x, theirs), gold, reduction="sum")
    for total in (loss, wanted):
        (total / 300).backward()
    assert torch.allclose(loss, wanted, rtol=1e-12)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-14)
    assert product.detach().sum().abs() < 1e-9  # the gradient of every row sums to zero
    with pytest.raises(RuntimeError, match="twice"):
        (loss / 300).backward()


def test_scores_that_something_else_needs_are_left_alone():
    torch.manual_seed(0)
    ours = torch.randn(5, V, dtype=torch.float64, requires_grad=True)
    theirs = ours.detach().clone().requires_grad_()
    gold = torch.randint(0, V, (5,))
    capped = ours.tanh()  # whose gradient looks back at its result
    before = capped.detach().clone()
    cross_entropy(capped, gold)[0].backward()
    F.cross_entropy(theirs.tanh(), gold, reduction="sum").backward()
    assert torch.equal(capped, before)
    assert torch.allclose(ours.grad, theirs.grad, atol=1e-14)


def test_many_rows_are_as_few(monkeypatch):
    ours, gold = scores()
    whole = cross_entropy(ours, gold, Smoothing(0.1))
    monkeypatch.setattr("kit_objective.cross_entropy.AT_ONCE", 2 * V)
    apart = cross_entropy(ours, gold, Smoothing(0.1))
    assert torch.allclose(whole[0], apart[0], rtol=1e-12) and torch.allclose(whole[1], apart[1], rtol=1e-12)
