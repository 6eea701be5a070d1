"""xPos, rotary positions with exponential decay: A Length-Extrapolatable Transformer (Sun et al. 2022).

Shapes: B batch, H heads, L tokens, E head dimension, P = E / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from kit import BuildContext, Dims, Options, Position, Problem
from kit_position.rope import CosSinCache, PairLayout, apply_rotary
from kit_position.scaling.contract import frequencies


class XposOptions(Options):
    """xPos: RoPE with scores that decay with distance, fast pairs most; causal stacks only."""

    use: Literal["xpos"] = "xpos"
    layout: PairLayout = "interleaved"
    """Dimensions that form a pair: 2n and 2n + 1 (`interleaved`, the paper), or n and n + E/2 (`half`)."""
    base: float = Field(default=10_000.0, gt=1.0)
    """RoPE base (theta): the longest wavelength is about 2 pi times this many tokens."""
    reach: PositiveFloat = 512.0
    """Distance at which pair i has decayed to (i/P + gamma) / (1 + gamma); the paper's scale base."""
    gamma: PositiveFloat = 0.4
    """Gamma of the decay; 0.4 in the paper."""


class XposPosition(Position):
    """Rotates pairs, scales queries up and keys down with the position, so that products decay with distance."""

    options_type = XposOptions
    options: XposOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.cos_sin = CosSinCache()

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The head dimension must be even and the stack causal: later keys would grow with distance."""
        if dims.head_dim % 2:
            yield build_context.problem(
                f"dimensions are rotated in pairs, and head_dim {dims.head_dim} is odd",
                hint="take another number of heads, so that head_dim is even",
            )
        if not build_context.causal:
            yield build_context.problem(
                f"xpos makes keys to the right grow with distance, and the {build_context.stack} looks to the right",
                hint="choose position: rotary here, or another position that looks both ways",
            )

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """RoPE, then the decay: queries scaled up, keys down: [B, H, L, E]."""
        cos, sin, up, down = self.cos_sin.get(at_BL, x_BHLE.dtype, self.angles)
        scale_B1LP = up if side == "query" else down
        return apply_rotary(x_BHLE, cos * scale_B1LP, sin * scale_B1LP, self.options.layout)

    def angles(self, at_BL: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cosine, sine and the scales of queries and keys: [B or 1, 1, L, P] each, in float64."""
        width, options = self.dims.head_dim, self.options
        at_B1L1 = at_BL[:, None, :, None].to(torch.float64)
        angles_B1LP = at_B1L1 * frequencies(width, options.base, at_BL.device)
        fraction_P = torch.arange(0, width, 2, dtype=torch.float64, device=at_BL.device) / width
        decay_P = (fraction_P + options.gamma) / (1 + options.gamma)
        # Relative to the middle of the maximum length, so that neither end leaves the range of float32.
        up_B1LP = decay_P ** ((at_B1L1 - self.dims.length // 2) / options.reach)
        return angles_B1LP.cos(), angles_B1LP.sin(), up_B1LP, 1 / up_B1LP
