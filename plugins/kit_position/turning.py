"""Turning pairs of numbers by an angle, in the two layouts that models use, and keeping the angles of a pass.

Shapes: B rows, H heads, L tokens, R numbers of a query or key that turn, P = R / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

PairLayout = Literal["half", "interleaved"]
"""Which two numbers are a pair: n and n + R/2 (Llama, GPT-NeoX), or neighbours (GPT-J, RoFormer)."""


def turn(x_BHLR: Tensor, cos_B1LP: Tensor, sin_B1LP: Tensor, layout: PairLayout) -> Tensor:
    """Each pair (a, b) becomes (a cos - b sin, b cos + a sin)."""
    if layout == "half":
        a, b = x_BHLR.chunk(2, -1)
        return torch.cat([a * cos_B1LP - b * sin_B1LP, b * cos_B1LP + a * sin_B1LP], -1)
    a, b = x_BHLR[..., 0::2], x_BHLR[..., 1::2]
    return torch.stack([a * cos_B1LP - b * sin_B1LP, b * cos_B1LP + a * sin_B1LP], -1).flatten(-2)


class Latest:
    """What was last made of some positions, given again while the same ones are asked for: by keys, and by every layer.

    What is kept is a pure function of positions, so no result depends on what was asked before.
    """

    def __init__(self) -> None:
        self._at: Tensor | None = None
        self._seen: Tensor | None = None
        self._version = 0
        self._kind: tuple[torch.dtype, bool] | None = None
        self._made: tuple[Tensor, ...] = ()

    def get(self, at: Tensor, dtype: torch.dtype, make: Callable[[Tensor], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
        """make(at), in this type."""
        if torch.compiler.is_compiling():  # the compiler shares equal work itself
            return tuple(each.to(dtype) for each in make(at))
        kind = dtype, torch.is_inference_mode_enabled()
        if kind != self._kind or not self._same(at):
            self._made = tuple(each.to(dtype) for each in make(at))
            self._kind = kind
            self._at, self._version = at, _version(at)
            self._seen = at.clone() if at.device.type == "cpu" else None
        return self._made

    def _same(self, at: Tensor) -> bool:
        if at.device.type == "cpu":  # comparing is cheap here, so equal positions of another pass are found too
            return self._seen is not None and torch.equal(at, self._seen)
        return at is self._at and not at.is_inference() and _version(at) == self._version


def _version(at: Tensor) -> int:
    return 0 if at.is_inference() else at._version
