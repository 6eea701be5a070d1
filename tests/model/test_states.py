"""Keys and values are remembered the same whichever way they are stored."""

from __future__ import annotations

import pytest
import torch

from kit import KeyValueState, MemoryState, Scope, TensorState
from kit.few_queries import MANY, attend_in_products, by_column, to_columns
from kit.layout import Layout


@pytest.mark.parametrize("rows", [2, MANY // 2])
def test_rows_and_tokens_are_chosen(rows: int) -> None:
    state = KeyValueState()
    state.share()
    generator = torch.Generator().manual_seed(0)
    every = [torch.randn(2, rows, 2, length, 5, generator=generator) for length in (3, 1, 30)]
    for keys, values in every:
        found = state.append(keys, values)
    wanted = torch.cat(every, 3)
    assert by_column(found[0]) == (rows * 2 >= MANY)
    assert all(torch.equal(ours, truth) for ours, truth in zip(found, wanted, strict=True))
    columns = by_column(found[0])
    chosen = torch.tensor([1, 1, 0])
    state.select(chosen.repeat(rows))
    assert by_column(next(state.tensors())) == columns
    wanted = wanted[:, chosen.repeat(rows)]
    assert all(torch.equal(ours, truth) for ours, truth in zip(state.tensors(), wanted, strict=True))
    kept = torch.tensor([[4, 0, 9], [33, 2, 3], [7, 8, 9]]).repeat(rows, 1)
    state.keep_tokens(kept)
    assert by_column(next(state.tensors())) == columns
    wanted = torch.stack(
        [torch.stack([row[:, tokens] for row, tokens in zip(each, kept, strict=True)]) for each in wanted]
    )
    assert all(torch.equal(ours, truth) for ours, truth in zip(state.tensors(), wanted, strict=True))
    assert state.append(wanted[0, :, :, :1], wanted[1, :, :, :1])[0].shape[2] == 4


@pytest.mark.parametrize("rows", [2, MANY])
def test_a_memory_is_kept(rows: int) -> None:
    state = MemoryState()
    keys, values = torch.randn(2, rows, 1, 7, 5)
    assert state.keep(keys.transpose(0, 2).contiguous().transpose(0, 2), values)[0].is_contiguous()
    state.share()
    found = state.projected
    assert found is not None and by_column(found[0]) == (rows >= MANY)
    assert torch.equal(found[0], keys) and torch.equal(found[1], values)
    state.select(torch.tensor([1]))
    assert state.projected is not None and torch.equal(state.projected[0], keys[1:2])


def test_a_state_that_is_shared_late_stays_what_it_was() -> None:
    state = KeyValueState()
    keys, values = torch.randn(2, MANY, 1, 3, 5)
    state.append(keys, values)
    state.share()
    found = list(state.tensors())
    assert by_column(found[0]) and torch.equal(found[0], keys) and torch.equal(found[1], values)


@pytest.mark.parametrize("groups", [4, 2, 1])
def test_attention_to_columns_is_attention(groups: int) -> None:
    q, (k, v) = torch.randn(3, 4, 5, 6).double(), torch.randn(2, 3, groups, 7, 6).double()
    mask = torch.randn(3, 1, 5, 7).double()
    found = attend_in_products(q, to_columns(k), v, 0.3, mask)
    scope = Scope(Layout((3, 5), q.device), Layout((3, 7), q.device))
    weights = (scope.scores(q, k, 0.3) + mask).softmax(-1)
    assert (found - weights @ v.repeat_interleave(4 // groups, 1)).abs().max() < 1e-12


def test_a_shared_state_that_cannot_forget_says_so() -> None:
    with pytest.raises(NotImplementedError, match="TensorState is shared by rows of a search and has no keep_tokens"):
        TensorState().keep_tokens(torch.tensor([[0]]))
