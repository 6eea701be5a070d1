"""Rotary position embedding (RoPE) of queries and keys in the two common layouts, with a cache of cosines and sines.

Shapes: B batch, H heads, L tokens, R rotated dimensions of a head, P = R / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

PairLayout = Literal["half", "interleaved"]
"""Dimensions that form a pair: n and n + R/2 (Llama, GPT-NeoX), or 2n and 2n + 1 (GPT-J, RoFormer)."""


def apply_rotary(x_BHLR: Tensor, cos_B1LP: Tensor, sin_B1LP: Tensor, layout: PairLayout) -> Tensor:
    """Rotates each pair (a, b) to (a cos - b sin, b cos + a sin): [B, H, L, R]."""
    if layout == "half":
        a, b = x_BHLR.chunk(2, -1)
        return torch.cat([a * cos_B1LP - b * sin_B1LP, b * cos_B1LP + a * sin_B1LP], -1)
    a, b = x_BHLR[..., 0::2], x_BHLR[..., 1::2]
    return torch.stack([a * cos_B1LP - b * sin_B1LP, b * cos_B1LP + a * sin_B1LP], -1).flatten(-2)


class CosSinCache:
    """Cosines and sines of the latest positions, reused by keys and by every layer while positions stay the same.

    They are a pure function of positions, so results never depend on earlier calls.
    """

    def __init__(self) -> None:
        self._at: Tensor | None = None
        self._seen: Tensor | None = None
        self._version = 0
        self._kind: tuple[torch.dtype, bool] | None = None
        self._made: tuple[Tensor, ...] = ()

    def get(self, at: Tensor, dtype: torch.dtype, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """make(at) in the given dtype, cached."""
        if torch.compiler.is_compiling():  # the compiler eliminates common subexpressions
            return tuple(each.to(dtype) for each in make(at))
        kind = dtype, torch.is_inference_mode_enabled()
        if kind != self._kind or not self._same(at):
            self._made = tuple(each.to(dtype) for each in make(at))
            self._kind = kind
            self._at, self._version = at, _version(at)
            self._seen = at.clone() if at.device.type == "cpu" else None
        return self._made

    def _same(self, at: Tensor) -> bool:
        if at.device.type == "cpu":  # comparing is cheap here, so equal positions of another pass hit too
            return self._seen is not None and torch.equal(at, self._seen)
        return at is self._at and not at.is_inference() and _version(at) == self._version


def _version(at: Tensor) -> int:
    return 0 if at.is_inference() else at._version
