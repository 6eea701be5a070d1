"""Rotary positions: queries and keys turn with their position (RoFormer, Su et al. 2021).

Shapes: B rows, H heads, L tokens, E width of a query or key, R numbers that turn, P = R / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import Dims, Options, Position, Problem, Site
from kit_position.scaling.contract import Scaling, ScalingSlot
from kit_position.scaling.none import NoneOptions
from kit_position.turning import Latest, PairLayout, turn


class RotaryOptions(Options):
    """Scores depend on how far apart query and key stand, through the angle between them."""

    use: Literal["rotary"] = "rotary"
    layout: PairLayout = "half"
    """Which numbers turn together: n and n + half of them (Llama), or neighbours (`interleaved`, GPT-J)."""
    share: float = Field(default=1.0, gt=0.0, le=1.0)
    """The share of each query and key that turns, counted from its start; the rest knows no position."""
    base: float = Field(default=10_000.0, gt=1.0)
    """The slowest pair turns about once in 2 pi times this many tokens."""
    scaling: ScalingSlot = NoneOptions()
    """How positions are stretched for texts longer than those of training: none, linear, ntk, yarn or llama3."""


class RotaryPosition(Position):
    """Turns pairs of numbers by angles that grow with the position, made in float64 so that far ones are exact."""

    options_type = RotaryOptions
    options: RotaryOptions
    relative = True
    examples = (
        {"share": 0.5},
        {"scaling": {"use": "linear", "factor": 4.0}},
        {"scaling": {"use": "ntk", "factor": 4.0}},
        {"scaling": {"use": "yarn", "factor": 4.0, "original_length": 64}},
        {"scaling": {"use": "llama3", "factor": 4.0, "original_length": 64}},
    )

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.turning = round(dims.head_width * options.share)
        self.scaling: Scaling = site.at("scaling").build(options.scaling, replace(dims, head_width=self.turning))
        self.latest = Latest()

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Numbers turn in pairs, and a scaling must make sense for so many."""
        turning = dims.head_width * options.share
        if round(turning) < 2 or round(turning) % 2 or abs(turning - round(turning)) > 1e-3:
            even, whole = max(2, 2 * round(turning / 2)), dims.head_width
            wider = "take another number of heads, so that a query's width is even"
            yield site.problem(
                f"numbers turn in pairs, and {options.share:g} of a query of width {whole} is {turning:g} numbers",
                *(("share",) if options.share < 1 else ()),
                hint=f"take share: {even / whole:.6g}" if options.share < 1 and even <= whole else wider,
            )
        yield from site.at("scaling").check(options.scaling, replace(dims, head_width=round(turning)))

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """The first R numbers turned, the rest as they are."""
        cos_B1LP, sin_B1LP = self.latest.get(at_BL, x_BHLE.dtype, self.angles)
        if self.turning == x_BHLE.shape[-1]:
            return turn(x_BHLE, cos_B1LP, sin_B1LP, self.options.layout)
        turned = turn(x_BHLE[..., : self.turning], cos_B1LP, sin_B1LP, self.options.layout)
        return torch.cat([turned, x_BHLE[..., self.turning :]], -1)

    def angles(self, at_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine for each position and pair: [B or 1, 1, L, P] in float64."""
        frequencies_P = self.scaling.frequencies(self.options.base, at_BL.device)
        angles_B1LP = at_BL[:, None, :, None].to(torch.float64) * frequencies_P
        return angles_B1LP.cos() * self.scaling.gain, angles_B1LP.sin() * self.scaling.gain
