"""ALiBi, attention with linear biases: Train Short, Test Long (Press et al. 2021).

Shapes: B batch, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor

from kit import BuildContext, Dims, Options, Position, Problem


class AlibiOptions(Options):
    """ALiBi: each head subtracts its own slope times the distance from the scores."""

    use: Literal["alibi"] = "alibi"
    direction: Literal["symmetric", "causal"] = "symmetric"
    """`symmetric`: -slope · |q - k|. `causal`: -slope · (q - k), for causal stacks (BLOOM, MPT)."""


def slopes(heads: int) -> list[float]:
    """2^(-8/n), 2^(-16/n), ... for n heads; other counts than powers of two are filled up as in the paper."""
    whole = 1 << (heads.bit_length() - 1)
    own = [2.0 ** (-8.0 * (head + 1) / whole) for head in range(whole)]
    between = [2.0 ** (-4.0 * (head + 1) / whole) for head in range(0, 2 * whole, 2)]
    return own + between[: heads - whole]


class AlibiPosition(Position):
    """A bias linear in the distance, with fixed slopes."""

    options_type = AlibiOptions
    options: AlibiOptions
    relative = True
    like: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        # Carries only the dtype of the model; the slopes themselves must not be rounded to it.
        self.register_buffer("like", torch.empty(0), persistent=False)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The causal form would reward later keys, so the stack must be causal."""
        if options.direction == "causal" and not build_context.causal:
            yield build_context.problem(
                f"direction: causal rewards keys to the right for being far, and the {build_context.stack} looks to "
                "the right",
                "direction",
                hint="write direction: symmetric",
            )

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """Bias of the scores: [B or 1, H, Q, K]."""
        dtype = torch.promote_types(self.like.dtype, torch.float32)
        ahead_BQK = k_at_BK[:, None, :] - q_at_BQ[:, :, None]
        if self.options.direction == "symmetric":
            ahead_BQK = -ahead_BQK.abs()
        slopes_H = torch.tensor(slopes(self.dims.heads), dtype=dtype, device=ahead_BQK.device)
        return ahead_BQK[:, None].to(dtype) * slopes_H[:, None, None]
