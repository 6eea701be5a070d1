"""Small random batches with padding on either side, and their pieces for incremental decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from kit.sequence.batch_layout import BatchLayout, TokenBatch

PaddingSide = Literal["right", "left"]
SIDES: tuple[PaddingSide, ...] = ("right", "left")


def vectors(*shape: int, seed: int = 0) -> Tensor:
    """Returns deterministic random numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def padding_mask_of(lengths: Sequence[int], side: PaddingSide = "right", longest: int | None = None) -> Tensor | None:
    """Returns the padding mask [rows, longest] of sequences; None if there is no padding."""
    longest = longest or max([1, *lengths])
    steps = torch.arange(longest)
    real = torch.stack([steps < length if side == "right" else steps >= longest - length for length in lengths])
    return None if bool(real.all()) else real


def layout_of(
    rows: int,
    length: int,
    padding_mask: Tensor | None = None,
    after: BatchLayout | None = None,
    features: Mapping[str, Tensor] | None = None,
) -> BatchLayout:
    """Returns the layout of a batch, whatever its token ids are."""
    return BatchLayout.of(TokenBatch(torch.zeros(rows, length, dtype=torch.long), padding_mask, features or {}), after)


def group_feature(padding_mask: Tensor | None, rows: int, length: int) -> dict[str, Tensor]:
    """Returns the token feature `group`, which some masks read, by the index among real tokens."""
    order = torch.arange(length).expand(rows, -1) if padding_mask is None else (padding_mask.cumsum(1) - 1).clamp(min=0)
    return {"group": order // 2 % 3}


def piece_sizes(length: int) -> list[tuple[int, ...]]:
    """Returns sizes of pieces for incremental decoding: one by one, and unequal ones."""
    if length > 32:
        first = length * 3 // 4
        return [(first, 1, 1, length - first - 2)]
    return [(1,) * length, (length // 2, 1, length - length // 2 - 1)]


def slices(length: int, sizes: Sequence[int]) -> list[slice]:
    """Returns the slices of consecutive pieces of these sizes."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    assert ends[-1] == length
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True) if size]
