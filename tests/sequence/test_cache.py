"""Keys and values are remembered the same whichever way they are stored."""

from __future__ import annotations

import pytest
import torch

from kit import AttentionContext, CrossAttentionKVCache, KVCache, RecurrentCache
from kit.kernels.attention import (
    MIN_TRANSPOSED_BATCH_HEADS,
    bmm_decode_attention,
    is_key_transposed,
    transpose_keys,
)
from kit.sequence.batch_layout import BatchLayout


@pytest.mark.parametrize("rows", [2, MIN_TRANSPOSED_BATCH_HEADS // 2])
def test_rows_and_tokens_are_chosen(rows: int) -> None:
    state = KVCache()
    state.share_across_beams()
    generator = torch.Generator().manual_seed(0)
    every = [torch.randn(2, rows, 2, length, 5, generator=generator) for length in (3, 1, 30)]
    for keys, values in every:
        found = state.append(keys, values)
    wanted = torch.cat(every, 3)
    assert is_key_transposed(found[0]) == (rows * 2 >= MIN_TRANSPOSED_BATCH_HEADS)
    assert all(torch.equal(ours, truth) for ours, truth in zip(found, wanted, strict=True))
    columns = is_key_transposed(found[0])
    chosen = torch.tensor([1, 1, 0])
    state.reorder(chosen.repeat(rows))
    assert is_key_transposed(next(state.tensors())) == columns
    wanted = wanted[:, chosen.repeat(rows)]
    assert all(torch.equal(ours, truth) for ours, truth in zip(state.tensors(), wanted, strict=True))
    kept = torch.tensor([[4, 0, 9], [33, 2, 3], [7, 8, 9]]).repeat(rows, 1)
    state.evict_except(kept)
    assert is_key_transposed(next(state.tensors())) == columns
    wanted = torch.stack(
        [torch.stack([row[:, tokens] for row, tokens in zip(each, kept, strict=True)]) for each in wanted]
    )
    assert all(torch.equal(ours, truth) for ours, truth in zip(state.tensors(), wanted, strict=True))
    assert state.append(wanted[0, :, :, :1], wanted[1, :, :, :1])[0].shape[2] == 4


@pytest.mark.parametrize("rows", [2, MIN_TRANSPOSED_BATCH_HEADS])
def test_a_memory_is_kept(rows: int) -> None:
    state = CrossAttentionKVCache()
    keys, values = torch.randn(2, rows, 1, 7, 5)
    assert state.store(keys.transpose(0, 2).contiguous().transpose(0, 2), values)[0].is_contiguous()
    state.share_across_beams()
    found = state.projected
    assert found is not None and is_key_transposed(found[0]) == (rows >= MIN_TRANSPOSED_BATCH_HEADS)
    assert torch.equal(found[0], keys) and torch.equal(found[1], values)
    state.reorder(torch.tensor([1]))
    assert state.projected is not None and torch.equal(state.projected[0], keys[1:2])


def test_a_state_that_is_shared_late_stays_what_it_was() -> None:
    state = KVCache()
    keys, values = torch.randn(2, MIN_TRANSPOSED_BATCH_HEADS, 1, 3, 5)
    state.append(keys, values)
    state.share_across_beams()
    found = list(state.tensors())
    assert is_key_transposed(found[0]) and torch.equal(found[0], keys) and torch.equal(found[1], values)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_attention_to_columns_is_attention(kv_heads: int) -> None:
    q, (k, v) = torch.randn(3, 4, 5, 6).double(), torch.randn(2, 3, kv_heads, 7, 6).double()
    mask = torch.randn(3, 1, 5, 7).double()
    found = bmm_decode_attention(q, transpose_keys(k), v, 0.3, mask)
    context = AttentionContext(BatchLayout((3, 5), q.device), BatchLayout((3, 7), q.device))
    weights = (context.scores(q, k, 0.3) + mask).softmax(-1)
    assert (found - weights @ v.repeat_interleave(4 // kv_heads, 1)).abs().max() < 1e-12


def test_a_shared_state_that_cannot_forget_says_so() -> None:
    with pytest.raises(
        NotImplementedError, match="RecurrentCache is shared by beams of a search and has no evict_except"
    ):
        RecurrentCache().evict_except(torch.tensor([[0]]))
