"""Attention with linear biases: Train Short, Test Long (Press et al. 2021).

Shapes: B rows, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from kit import Dims, Options, Position, Problem, Site


class AlibiOptions(Options):
    """Every head takes its own slope times the distance away from the score."""

    use: Literal["alibi"] = "alibi"
    direction: Literal["symmetric", "causal"] = "symmetric"
    """-slope · |q - k|, the same to both sides, or -slope · (q - k), which only hidden keys may exceed (BLOOM, MPT)."""


def slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... for n heads; where n is no power of two, every second one of twice as many fills up."""
    whole = 1 << (heads.bit_length() - 1)
    own = [2.0 ** (-8.0 * (head + 1) / whole) for head in range(whole)]
    between = [2.0 ** (-4.0 * (head + 1) / whole) for head in range(0, 2 * whole, 2)]
    return own + between[: heads - whole]


class AlibiPosition(Position):
    """A penalty that grows with distance; nothing is learned."""

    options_type = AlibiOptions
    options: AlibiOptions
    relative = True
    like: Tensor

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        # Nothing but a sign of the type that the model computes in; slopes themselves must not be rounded to it.
        self.register_buffer("like", torch.empty(0), persistent=False)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A penalty that turns into a reward for later keys is no use where they are seen."""
        if options.direction == "causal" and not site.causal:
            yield site.problem(
                f"direction: causal rewards keys to the right for being far, and the {site.stack} looks to the right",
                "direction",
                hint="write direction: symmetric",
            )

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """[B or 1, H, Q, K]."""
        dtype = torch.promote_types(self.like.dtype, torch.float32)
        ahead_BQK = k_at_BK[:, None, :] - q_at_BQ[:, :, None]
        if self.options.direction == "symmetric":
            ahead_BQK = -ahead_BQK.abs()
        slopes_H = torch.tensor(slopes(self.dims.heads), dtype=dtype, device=ahead_BQK.device)
        return ahead_BQK[:, None].to(dtype) * slopes_H[:, None, None]
