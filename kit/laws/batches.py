"""Small batches of vectors with padding on either side, and how they are cut for steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor

from kit.layout import Layout
from kit.tokens import Tokens

PaddingSide = Literal["right", "left"]
SIDES: tuple[PaddingSide, ...] = ("right", "left")


def vectors(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers in float64, the same every time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def valid_of(lengths: Sequence[int], side: PaddingSide = "right", longest: int | None = None) -> Tensor | None:
    """[rows, longest], true where a token is real; None where all are."""
    longest = longest or max([1, *lengths])
    steps = torch.arange(longest)
    real = torch.stack([steps < length if side == "right" else steps >= longest - length for length in lengths])
    return None if bool(real.all()) else real


def layout_of(
    rows: int,
    length: int,
    valid: Tensor | None = None,
    after: Layout | None = None,
    facts: Mapping[str, Tensor] | None = None,
) -> Layout:
    """The layout of a batch; its ids are of no concern."""
    return Layout.of(Tokens(torch.zeros(rows, length, dtype=torch.long), valid, facts or {}), after)


def groups(valid: Tensor | None, rows: int, length: int) -> dict[str, Tensor]:
    """A fact that masks may ask for: which group a token is in, by its place among the real ones."""
    order = torch.arange(length).expand(rows, -1) if valid is None else (valid.cumsum(1) - 1).clamp(min=0)
    return {"group": order // 2 % 3}


def cuts(length: int) -> list[tuple[int, ...]]:
    """Ways to read a text of this length step by step: one by one, and in unequal pieces."""
    if length > 32:
        first = length * 3 // 4
        return [(first, 1, 1, length - first - 2)]
    return [(1,) * length, (length // 2, 1, length - length // 2 - 1)]


def pieces(length: int, sizes: Sequence[int]) -> list[slice]:
    """The stretches that these sizes cut a text into."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    assert ends[-1] == length
    return [slice(end - size, end) for end, size in zip(ends, sizes, strict=True) if size]
