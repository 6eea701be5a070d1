"""Dropout by C++ of our own (dropping.cpp): nothing is kept for the way back, which makes the same choices again."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from kit.native.loading import Library
from kit.native.plain import is_plain

LIBRARY = Library("dropping", {"drop": None})


def drops(x: Tensor) -> bool:
    """Whether `drop` can be asked."""
    return LIBRARY.loaded and is_plain(x)


def drop(x: Tensor, seed: int, dropped: int) -> Tensor:
    """x with so many of 65,536 numbers set to zero, chosen by the seed, and the rest scaled up."""
    left: Tensor = _Dropped.apply(x, seed, dropped)  # type: ignore[no-untyped-call]
    return left


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, dropped: int) -> Tensor:
        ctx.chosen = seed, dropped
        return torch.ops.kit.drop(x.contiguous(), seed, dropped)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return drop(gradients[0], *ctx.chosen), None, None
