"""Dropout that is cheap on a CPU: torch draws a random number an element there; here one 64-bit word serves four.

The chance is rounded to a 65,536th. In training it is done by C++ of our own where there is a compiler. Everywhere else
than on a CPU torch's own kernel is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.native import dropping

_STEPS = 1 << 16


def _dropped(chance: float) -> int:
    """How many of 65,536 numbers; never all."""
    return min(round(chance * _STEPS), _STEPS - 1)


def _seed() -> int:
    """Of a generator that is quicker than torch's, by which it is chosen."""
    return int(torch.randint(1 << 62, ()))


def _random_words(count: int) -> Tensor:
    """Words of 64 random bits."""
    source = np.random.SFC64(_seed())
    return torch.from_numpy(np.random.Generator(source).integers(-(1 << 63), 1 << 63, count, dtype=np.int64))


class _WordDropout(torch.autograd.Function):
    """Multiplies by 0 or 1/(1-p); keeps the factors themselves, in the type of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, chance: float) -> Tensor:
        count = x.numel()
        dropped = _dropped(chance)
        pieces = _random_words((count + 3) // 4).view(torch.int16)[:count].view(x.shape)
        # A comparison may write numbers, and numbers multiply numbers sooner than truth values do.
        factors = torch.ge(pieces, dropped - _STEPS // 2, out=torch.empty(x.shape, dtype=x.dtype))
        ctx.scale = _STEPS / (_STEPS - dropped)
        if x.dtype in (torch.float32, torch.float64):  # in half precision the scale would be rounded
            factors.mul_(ctx.scale)
            ctx.scale = 1.0
        ctx.save_for_backward(factors)
        return _scaled(x * factors, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return _scaled(gradients[0] * factors, ctx.scale), None


def _scaled(x: Tensor, scale: float) -> Tensor:
    return x if scale == 1.0 else x.mul_(scale)


def drop(x: Tensor, chance: float, training: bool = True) -> Tensor:
    """x with this share of its numbers set to zero and the rest scaled up; x itself outside training."""
    if not training or chance == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, chance)
    if x.numel() == 0:
        return x
    if dropping.drops(x):
        return dropping.drop(x, _seed(), _dropped(chance))
    dropped: Tensor = _WordDropout.apply(x, chance)  # type: ignore[no-untyped-call]
    return dropped


class Dropout(nn.Module):
    """Dropout as a module."""

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance

    def forward(self, x: Tensor) -> Tensor:
        """Drop, in training."""
        return drop(x, self.chance, self.training)

    def extra_repr(self) -> str:
        """The chance."""
        return f"chance={self.chance}"
