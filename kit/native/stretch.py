"""Several steps of a compiled search for the likeliest token in a row, without Python between them (stretch.cpp).

Shapes: S steps at most, N numbers that a step is given, T steps that were taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kit.native.loading import Library

LIBRARY = Library("stretch", {"stretch": None})


@dataclass(frozen=True)
class Wiring:
    """How what a compiled step makes becomes what the next one is given; places are those in its list of tensors."""

    entry: int
    """The address of its code."""
    ids: int
    """Where it is given the token that it reads."""
    numbers: list[int]
    """Where it is given whole numbers."""
    back: list[int]
    """For each tensor that it makes where the next step is given it, or -1."""
    scores: int
    """Which of the tensors that it makes the scores are."""


def stretch(
    wiring: Wiring, given: Sequence[Tensor], token: int, numbers_SN: Tensor, never: Tensor, end: int
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Read a token, take the likeliest, read that, and so on, until `end` is taken, or no token can be, or steps end.

    Log-probabilities [T] and tokens [T] that were taken, and what the last step made.
    """
    found: tuple[Tensor, Tensor, list[Tensor]] = torch.ops.kit.stretch(
        wiring.entry,
        given,
        wiring.ids,
        token,
        wiring.numbers,
        numbers_SN,
        wiring.back,
        wiring.scores,
        never,
        end,
    )
    return found
