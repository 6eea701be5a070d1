"""Dropout that is cheap on a CPU: torch draws a random number an element there; here one 64-bit word serves four.

The chance is rounded to a 65,536th. Everywhere else torch's own kernel is used.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_STEPS = 1 << 16


class _WordDropout(torch.autograd.Function):
    """Multiplies by 0 or 1/(1-p); keeps the mask as the factors themselves in the type of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, chance: float) -> Tensor:
        count = x.numel()
        words = torch.empty((count + 3) // 4, dtype=torch.int64)
        # The full range of 64 bits: every 16-bit piece is uniform.
        words.random_(-(1 << 63), None)
        threshold = round(chance * _STEPS) - (1 << 15)
        kept = (words.view(torch.int16)[:count] >= threshold).view(x.shape)
        scale = _STEPS / (_STEPS - round(chance * _STEPS))
        ctx.save_for_backward(kept)
        ctx.scale = scale
        return (x * kept).mul_(scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return (gradients[0] * kept).mul_(ctx.scale), None


def drop(x: Tensor, chance: float, training: bool = True) -> Tensor:
    """x with this share of its numbers set to zero and the rest scaled up; x itself outside training."""
    if not training or chance == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, chance)
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
