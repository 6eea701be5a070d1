"""From packed tokens to heads in padded rows and back, each by one look-up: nothing is copied twice on the way.

Shapes: B rows, L length, N real tokens, H heads of a piece (queries, keys or values), E width of a head, D all heads of
all pieces side by side, S places of all heads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class HeadPlaces:
    """Where the heads of packed tokens stand in padded rows, for pieces of so many heads each."""

    def __init__(self, shape: tuple[int, int], index_N: Tensor, pieces: tuple[int, ...]) -> None:
        rows, length = shape
        self.heads, tokens = sum(pieces), index_N.shape[0]
        self.shapes = [(rows, heads, length) for heads in pieces]
        self.sizes = [rows * heads * length for heads in pieces]
        token_BL = index_N.new_full((rows * length,), tokens)
        token_BL[index_N] = torch.arange(tokens, device=index_N.device)
        row_N, at_N = index_N // length, index_N % length
        sources, places = [], []
        for number, heads in enumerate(pieces):
            head_H = torch.arange(heads, device=index_N.device)
            before, start = sum(pieces[:number]), sum(self.sizes[:number])
            sources.append((token_BL.view(rows, 1, length) * self.heads + (before + head_H)[:, None]).flatten())
            places.append(start + (row_N[:, None] * heads + head_H) * length + at_N[:, None])
        self.zero_or_source_S = torch.cat(sources)
        """Of each head of each place, piece after piece: its number among the heads of the packed tokens; padding's are
        those of a token after the last."""
        self.source_S = torch.where(self.zero_or_source_S < tokens * self.heads, self.zero_or_source_S, 0)
        """The same, but padding's are some head of a real token."""
        self.place_N = torch.cat(places, 1).flatten()
        """Of each head of each packed token: its number among the places of all pieces."""

    def spread(self, x_ND: Tensor) -> tuple[Tensor, ...]:
        """Each piece as [B, H, L, E]; in padding stands what some token has, without gradient: nobody looks there."""
        given: tuple[Tensor, ...] = _Spread.apply(x_ND, self)  # type: ignore[no-untyped-call]
        return given

    def gather(self, *pieces_BHLE: Tensor) -> Tensor:
        """What `spread` undoes: [N, D]."""
        packed_ND: Tensor = _Gather.apply(self, *pieces_BHLE)  # type: ignore[no-untyped-call]
        return packed_ND

    def look_up(self, x_ND: Tensor, source_S: Tensor) -> tuple[Tensor, ...]:
        """Each piece as [B, H, L, E], from these heads of tokens."""
        found = x_ND.reshape(-1, x_ND.shape[1] // self.heads).index_select(0, source_S).split(self.sizes)
        return tuple(piece.view(*shape, -1) for piece, shape in zip(found, self.shapes, strict=True))


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, to: HeadPlaces) -> tuple[Tensor, ...]:
        ctx.to = to
        return to.look_up(x_ND, to.source_S)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.to.gather(*gradients), None


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, to: HeadPlaces, *pieces_BHLE: Tensor) -> Tensor:
        ctx.to = to
        rows_SE = _together([piece.reshape(-1, piece.shape[-1]) for piece in pieces_BHLE])
        return rows_SE.index_select(0, to.place_N).view(-1, to.heads * rows_SE.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (d_ND,) = gradients
        with_zero_ND = torch.cat([d_ND, d_ND.new_zeros(1, d_ND.shape[1])])
        return None, *ctx.to.look_up(with_zero_ND, ctx.to.zero_or_source_S)


def _together(pieces_SE: list[Tensor]) -> Tensor:
    """Pieces one after the other; not copied where they lie so already."""
    first, size = pieces_SE[0], 0
    for piece in pieces_SE:
        same = piece.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or piece.storage_offset() != first.storage_offset() + size:
            return torch.cat(pieces_SE)
        size += piece.numel()
    return first.as_strided((size // first.shape[1], first.shape[1]), first.stride())
