"""Padding of heads: scatters packed tokens [N, D] into padded heads [B, H, L, E], and back, by precomputed indices.

Shapes: B rows, L length, N packed tokens, D features, H heads, E head_dim; S heads of all positions of all pieces.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kit.kernels.attention import MAX_SEQ_LEN


def should_index_heads(index_N: Tensor, length: int) -> bool:
    """Whether `PaddingIndex` beats pad and transpose: on a CPU, for short sequences."""
    if index_N.device.type != "cpu" or length > MAX_SEQ_LEN:
        return False
    return not torch.compiler.is_compiling() and index_N.shape[0] != 0


class PaddingIndex:
    """Indices between packed tokens [N, D] and pieces [B, H, L, E] of so many heads each, made once a batch."""

    def __init__(self, shape: tuple[int, int], index_N: Tensor, pieces: tuple[int, ...]) -> None:
        rows, length = shape
        self.heads, tokens = sum(pieces), index_N.shape[0]
        self.shapes = [(rows, heads, length) for heads in pieces]
        self.sizes = [rows * heads * length for heads in pieces]
        token_BL = index_N.new_full((rows * length,), tokens)
        token_BL[index_N] = torch.arange(tokens, device=index_N.device)
        row_N, column_N = index_N // length, index_N % length
        sources, targets = [], []
        for number, heads in enumerate(pieces):
            head_H = torch.arange(heads, device=index_N.device)
            before, start = sum(pieces[:number]), sum(self.sizes[:number])
            sources.append((token_BL.view(rows, 1, length) * self.heads + (before + head_H)[:, None]).flatten())
            targets.append(start + (row_N[:, None] * heads + head_H) * length + column_N[:, None])
        self.zero_or_source_S = torch.cat(sources)
        """For each head of each position, piece after piece: its index among the heads of the packed tokens;
        at padding, an index of a token after the last."""
        self.source_S = torch.where(self.zero_or_source_S < tokens * self.heads, self.zero_or_source_S, 0)
        """The same, with some head of a real token at padding."""
        self.target_N = torch.cat(targets, 1).flatten()
        """For each head of each packed token: its index among the positions of all pieces."""

    def scatter(self, x_ND: Tensor) -> tuple[Tensor, ...]:
        """Scatters packed tokens into pieces [B, H, L, E]; padding holds arbitrary values, without gradient."""
        pieces: tuple[Tensor, ...] = _ScatterHeads.apply(x_ND, self)  # type: ignore[no-untyped-call]
        return pieces

    def gather(self, *pieces_BHLE: Tensor) -> Tensor:
        """Inverse of `scatter`: pieces [B, H, L, E] -> [N, D]."""
        packed_ND: Tensor = _GatherHeads.apply(self, *pieces_BHLE)  # type: ignore[no-untyped-call]
        return packed_ND

    def select(self, x_ND: Tensor, source_S: Tensor) -> tuple[Tensor, ...]:
        """Selects heads of tokens, as pieces [B, H, L, E]."""
        found = x_ND.reshape(-1, x_ND.shape[1] // self.heads).index_select(0, source_S).split(self.sizes)
        return tuple(piece.view(*shape, -1) for piece, shape in zip(found, self.shapes, strict=True))


class _ScatterHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, index: PaddingIndex) -> tuple[Tensor, ...]:
        ctx.index = index
        return index.select(x_ND, index.source_S)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.index.gather(*gradients), None


class _GatherHeads(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, index: PaddingIndex, *pieces_BHLE: Tensor) -> Tensor:
        ctx.index = index
        rows_SE = _concatenate([piece.reshape(-1, piece.shape[-1]) for piece in pieces_BHLE])
        return rows_SE.index_select(0, index.target_N).view(-1, index.heads * rows_SE.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (d_ND,) = gradients
        with_zero_ND = torch.cat([d_ND, d_ND.new_zeros(1, d_ND.shape[1])])
        return None, *ctx.index.select(with_zero_ND, ctx.index.zero_or_source_S)


def _concatenate(pieces_SE: list[Tensor]) -> Tensor:
    """Concatenates along the first axis; a view if the pieces are adjacent in one storage."""
    first, size = pieces_SE[0], 0
    for piece in pieces_SE:
        same = piece.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
        if not same or piece.storage_offset() != first.storage_offset() + size:
            return torch.cat(pieces_SE)
        size += piece.numel()
    return first.as_strided((size // first.shape[1], first.shape[1]), first.stride())
