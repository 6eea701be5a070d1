"""Rotary position embedding (RoPE) of queries and keys: RoFormer (Su et al. 2021).

Shapes: B batch, H heads, L tokens, E head dimension, R rotated dimensions, P = R / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import BuildContext, Dims, Options, Position, Problem
from kit_position.rope import CosSinCache, PairLayout, apply_rotary
from kit_position.scaling.contract import Scaling, ScalingSlot
from kit_position.scaling.none import NoneOptions


class RotaryOptions(Options):
    """RoPE: rotates queries and keys by their positions, so that scores depend on the distance."""

    use: Literal["rotary"] = "rotary"
    layout: PairLayout = "half"
    """Dimensions that form a pair: n and n + R/2 (`half`, Llama), or 2n and 2n + 1 (`interleaved`, GPT-J)."""
    rotary_fraction: float = Field(default=1.0, gt=0.0, le=1.0)
    """Fraction of the head dimension that is rotated, from its start (partial rotary factor)."""
    base: float = Field(default=10_000.0, gt=1.0)
    """RoPE base (theta): the longest wavelength is about 2 pi times this many tokens."""
    scaling: ScalingSlot = NoneOptions()
    """Context extension beyond the training length: none, linear, ntk, yarn or llama3."""


class RotaryPosition(Position):
    """Rotates pairs of dimensions by angles proportional to the position, computed in float64."""

    options_type = RotaryOptions
    options: RotaryOptions
    relative = True
    examples = (
        {"rotary_fraction": 0.5},
        {"scaling": {"use": "linear", "factor": 4.0}},
        {"scaling": {"use": "ntk", "factor": 4.0}},
        {"scaling": {"use": "yarn", "factor": 4.0, "original_length": 64}},
        {"scaling": {"use": "llama3", "factor": 4.0, "original_length": 64}},
    )

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.rotated = round(dims.head_dim * options.rotary_fraction)
        self.scaling: Scaling = build_context.at("scaling").build(options.scaling, replace(dims, head_dim=self.rotated))
        self.cos_sin = CosSinCache()

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The rotated dimensions must be even, and the scaling must suit them."""
        rotated = dims.head_dim * options.rotary_fraction
        if round(rotated) < 2 or round(rotated) % 2 or abs(rotated - round(rotated)) > 1e-3:
            even, whole = max(2, 2 * round(rotated / 2)), dims.head_dim
            wider = "take another number of heads, so that head_dim is even"
            yield build_context.problem(
                f"dimensions are rotated in pairs, and {options.rotary_fraction:g} of a head_dim of {whole} is "
                f"{rotated:g}",
                *(("rotary_fraction",) if options.rotary_fraction < 1 else ()),
                hint=f"take rotary_fraction: {even / whole:.6g}"
                if options.rotary_fraction < 1 and even <= whole
                else wider,
            )
        yield from build_context.at("scaling").check(options.scaling, replace(dims, head_dim=round(rotated)))

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """The first R dimensions rotated, the others unchanged: [B, H, L, E]."""
        cos_B1LP, sin_B1LP = self.cos_sin.get(at_BL, x_BHLE.dtype, self.angles)
        if self.rotated == x_BHLE.shape[-1]:
            return apply_rotary(x_BHLE, cos_B1LP, sin_B1LP, self.options.layout)
        rotated = apply_rotary(x_BHLE[..., : self.rotated], cos_B1LP, sin_B1LP, self.options.layout)
        return torch.cat([rotated, x_BHLE[..., self.rotated :]], -1)

    def angles(self, at_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine of each position and pair: [B or 1, 1, L, P] in float64."""
        frequencies_P = self.scaling.frequencies(self.options.base, at_BL.device)
        angles_B1LP = at_BL[:, None, :, None].to(torch.float64) * frequencies_P
        return angles_B1LP.cos() * self.scaling.gain, angles_B1LP.sin() * self.scaling.gain
