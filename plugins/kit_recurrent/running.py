"""Runs recurrent layers over the real tokens of a batch, wherever padding stands, and brings their state up to date.

Shapes: B rows, L length, N real tokens, R rows that have any, T longest row, D width, H hidden width,
S layers times directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from kit import Layout

Remembered = tuple[Tensor, ...]
"""What layers remember, [S, B, H] each: the hidden state, and for an LSTM its cell."""


@dataclass(frozen=True)
class Ordering:
    """The real tokens of a batch in the order in which torch runs over rows of different lengths."""

    places_N: Tensor
    """Where each token lies in the form in which the batch is carried: first tokens of all rows, then second ones."""
    sizes_T: Tensor
    """How many rows have a first token, a second one, ...; on the CPU, as torch wants it."""
    rows_R: Tensor
    """Rows that have tokens, the longest first."""

    @classmethod
    def of(cls, layout: Layout, valid_BL: Tensor) -> Ordering:
        """The ordering of a batch with padding anywhere."""
        flat_N = valid_BL.reshape(-1).nonzero().squeeze(1)
        time_N = (valid_BL.cumsum(1) - 1).reshape(-1)[flat_N]
        lengths_B = valid_BL.sum(1)
        ranked_B = lengths_B.argsort(descending=True, stable=True)
        rank_B = torch.empty_like(ranked_B)
        rank_B[ranked_B] = torch.arange(layout.rows, device=ranked_B.device)
        by_time_N = (time_N * layout.rows + rank_B[flat_N // layout.length]).argsort()
        sizes_T = (lengths_B > torch.arange(layout.length, device=lengths_B.device)[:, None]).sum(1).cpu()
        sizes_T = sizes_T[sizes_T > 0]
        places_N = by_time_N if layout.is_packed else flat_N[by_time_N]
        return cls(places_N, sizes_T, ranked_B[: int(sizes_T[0]) if len(sizes_T) else 0])


def run(cells: nn.RNNBase, x: Tensor, layout: Layout, before: Remembered) -> tuple[Tensor, Remembered]:
    """x: [..., D] as the layout carries it; returns what the last layer gives, [..., H], and what is remembered then.

    Padding is given zeros, and is not remembered.
    """
    if layout.valid is None or x.is_meta:
        return call(cells, x, before)
    order = Ordering.of(layout, layout.valid)
    if not len(order.rows_R):
        return x.new_zeros(*x.shape[:-1], cells.hidden_size * (2 if cells.bidirectional else 1)), before
    flat = x.reshape(-1, x.shape[-1])
    packed = PackedSequence(flat.index_select(0, order.places_N), order.sizes_T)
    told, after = call(cells, packed, tuple(each.index_select(1, order.rows_R) for each in before))
    out = told.data.new_zeros(flat.shape[0], told.data.shape[-1]).index_copy(0, order.places_N, told.data)
    remembered = tuple(
        old.to(new.dtype).index_copy(1, order.rows_R, new) for old, new in zip(before, after, strict=True)
    )
    return out.view(*x.shape[:-1], -1), remembered


def call(cells: nn.RNNBase, x: Tensor | PackedSequence, before: Remembered) -> tuple[Tensor, Remembered]:
    """torch's recurrent modules take and give a pair only where there are two things to remember."""
    given = before if len(before) > 1 else before[0]
    out, after = cells(x, given)
    return out, after if isinstance(after, tuple) else (after,)
