"""Dropout that is cheap on a CPU, where torch draws a random number per element: here one 64-bit word serves four.

The probability is rounded to a 65,536th. In training a C++ kernel does it if it could be compiled; on other devices
torch's own kernel is used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit.kernels.cpp.op_library import OpLibrary, supports_native

LIBRARY = OpLibrary("dropout", {"dropout": None})
_STEPS = 1 << 16


def drop(x: Tensor, p: float, training: bool = True) -> Tensor:
    """Zeroes elements of x with probability p and scales the rest by 1 / (1 - p); returns x itself outside training."""
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.dropout(x, p)
    if x.numel() == 0:
        return x
    if LIBRARY.loaded and supports_native(x):
        return native_dropout(x, _seed(), _drop_threshold(p))
    dropped: Tensor = _WordDropout.apply(x, p)  # type: ignore[no-untyped-call]
    return dropped


class Dropout(nn.Module):
    """Dropout as a module."""

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Applies dropout in training."""
        return drop(x, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}"


def native_dropout(x: Tensor, seed: int, threshold: int) -> Tensor:
    """Dropout in C++ (dropout.cpp) with probability threshold / 65,536; saves no mask: backward draws it again."""
    dropped: Tensor = _NativeDropout.apply(x, seed, threshold)  # type: ignore[no-untyped-call]
    return dropped


class _NativeDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, seed: int, threshold: int) -> Tensor:
        ctx.draw = seed, threshold
        return torch.ops.kit.dropout(x.contiguous(), seed, threshold)  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        return native_dropout(gradients[0], *ctx.draw), None, None


class _WordDropout(torch.autograd.Function):
    """Multiplies by 0 or 1 / (1 - p); saves these factors in the dtype of x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float) -> Tensor:
        count = x.numel()
        threshold = _drop_threshold(p)
        pieces = _random_words((count + 3) // 4).view(torch.int16)[:count].view(x.shape)
        # A comparison may write floats, and multiplying floats by floats is faster than by booleans.
        factors = torch.ge(pieces, threshold - _STEPS // 2, out=torch.empty(x.shape, dtype=x.dtype))
        ctx.scale = _STEPS / (_STEPS - threshold)
        if x.dtype in (torch.float32, torch.float64):  # in half precision the scale would be rounded
            factors.mul_(ctx.scale)
            ctx.scale = 1.0
        ctx.save_for_backward(factors)
        return _scaled(x * factors, ctx.scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (factors,) = ctx.saved_tensors
        return _scaled(gradients[0] * factors, ctx.scale), None


def _drop_threshold(p: float) -> int:
    """The probability in 65,536ths, below one."""
    return min(round(p * _STEPS), _STEPS - 1)


def _seed() -> int:
    """Seeds a generator that is faster than torch's, from torch's."""
    return int(torch.randint(1 << 62, ()))


def _random_words(count: int) -> Tensor:
    """Random 64-bit integers [count]."""
    source = np.random.SFC64(_seed())
    return torch.from_numpy(np.random.Generator(source).integers(-(1 << 63), 1 << 63, count, dtype=np.int64))


def _scaled(x: Tensor, scale: float) -> Tensor:
    return x if scale == 1.0 else x.mul_(scale)
