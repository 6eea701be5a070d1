"""Recurrent layers over the real tokens of a batch with any padding, by torch's PackedSequence.

Shapes: B batch, L length, N real tokens, R non-empty rows, T longest row, D model width, H hidden size, S layers times
directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from kit import BatchLayout

HiddenState = tuple[Tensor, ...]
"""Hidden state [S, B, H], and for an LSTM its cell state."""


@dataclass(frozen=True)
class TimeMajorOrder:
    """The real tokens of a batch in the time-major order of a PackedSequence."""

    token_index_N: Tensor
    """Index of each token in the given layout: first tokens of all rows, then second ones."""
    sizes_T: Tensor
    """Rows with a first token, a second one, ... (batch_sizes), on the CPU."""
    rows_R: Tensor
    """Non-empty rows, longest first."""

    @classmethod
    def of(cls, layout: BatchLayout, padding_mask_BL: Tensor) -> TimeMajorOrder:
        """The order for a padding mask [B, L]."""
        flat_N = padding_mask_BL.reshape(-1).nonzero().squeeze(1)
        time_N = (padding_mask_BL.cumsum(1) - 1).reshape(-1)[flat_N]
        lengths_B = padding_mask_BL.sum(1)
        ranked_B = lengths_B.argsort(descending=True, stable=True)
        rank_B = torch.empty_like(ranked_B)
        rank_B[ranked_B] = torch.arange(layout.rows, device=ranked_B.device)
        by_time_N = (time_N * layout.rows + rank_B[flat_N // layout.length]).argsort()
        sizes_T = (lengths_B > torch.arange(layout.length, device=lengths_B.device)[:, None]).sum(1).cpu()
        sizes_T = sizes_T[sizes_T > 0]
        token_index_N = by_time_N if layout.is_packed else flat_N[by_time_N]
        return cls(token_index_N, sizes_T, ranked_B[: int(sizes_T[0]) if len(sizes_T) else 0])


def run(cells: nn.RNNBase, x: Tensor, layout: BatchLayout, before: HiddenState) -> tuple[Tensor, HiddenState]:
    """x: [..., D] in the given layout; returns the outputs of the last layer [..., H] and the final hidden state.

    Outputs of padding are zeros, and padding does not change the hidden state.
    """
    if layout.padding_mask is None or x.is_meta:
        return call(cells, x, before)
    order = TimeMajorOrder.of(layout, layout.padding_mask)
    if not len(order.rows_R):
        return x.new_zeros(*x.shape[:-1], cells.hidden_size * (2 if cells.bidirectional else 1)), before
    flat = x.reshape(-1, x.shape[-1])
    packed = PackedSequence(flat.index_select(0, order.token_index_N), order.sizes_T)
    out_packed, after = call(cells, packed, tuple(each.index_select(1, order.rows_R) for each in before))
    out = out_packed.data.new_zeros(flat.shape[0], out_packed.data.shape[-1]).index_copy(
        0, order.token_index_N, out_packed.data
    )
    merged = tuple(old.to(new.dtype).index_copy(1, order.rows_R, new) for old, new in zip(before, after, strict=True))
    return out.view(*x.shape[:-1], -1), merged


def call(cells: nn.RNNBase, x: Tensor | PackedSequence, before: HiddenState) -> tuple[Tensor, HiddenState]:
    """Calls a recurrent module, whose hidden state is a pair for an LSTM and a single tensor otherwise."""
    given = before if len(before) > 1 else before[0]
    out, after = cells(x, given)
    return out, after if isinstance(after, tuple) else (after,)
