"""Rotary positions that fade with distance: A Length-Extrapolatable Transformer (Sun et al. 2022).

Shapes: B rows, H heads, L tokens, E width of a query or key, P = E / 2 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from kit import Dims, Options, Position, Problem, Site
from kit_position.scaling.contract import frequencies
from kit_position.turning import Latest, PairLayout, turn


class XposOptions(Options):
    """Queries and keys turn with their position, and what is far away counts less, fast pairs most."""

    use: Literal["xpos"] = "xpos"
    layout: PairLayout = "interleaved"
    """Which numbers turn together: neighbours (the paper), or n and n + half of them (`half`)."""
    base: float = Field(default=10_000.0, gt=1.0)
    """The slowest pair turns about once in 2 pi times this many tokens."""
    reach: PositiveFloat = 512.0
    """At this distance pair i has faded to its decay (i/P + gamma) / (1 + gamma)."""
    gamma: PositiveFloat = 0.4
    """How little the pairs fade; the paper has 0.4."""


class XposPosition(Position):
    """Queries grow as keys shrink, so that their product fades with distance; for stacks that look back only."""

    options_type = XposOptions
    options: XposOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.latest = Latest()

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Pairs, and no future: a key that is later would grow with distance."""
        if dims.head_width % 2:
            yield site.problem(
                f"numbers turn in pairs, and a query has the odd width {dims.head_width}",
                hint="take another number of heads, so that a query's width is even",
            )
        if not site.causal:
            yield site.problem(
                f"xpos makes keys to the right grow with distance, and the {site.stack} looks to the right",
                hint="choose position: rotary here, or another position that looks both ways",
            )

    def rotate(self, x_BHLE: Tensor, at_BL: Tensor, side: Literal["query", "key"]) -> Tensor:
        """Turned as rotary positions are, then scaled: queries up, keys down."""
        cos, sin, up, down = self.latest.get(at_BL, x_BHLE.dtype, self.angles)
        scale_B1LP = up if side == "query" else down
        return turn(x_BHLE, cos * scale_B1LP, sin * scale_B1LP, self.options.layout)

    def angles(self, at_BL: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cosine, sine, and what queries and keys are multiplied by: [B or 1, 1, L, P] each, in float64."""
        width, options = self.dims.head_width, self.options
        at_B1L1 = at_BL[:, None, :, None].to(torch.float64)
        angles_B1LP = at_B1L1 * frequencies(width, options.base, at_BL.device)
        share_P = torch.arange(0, width, 2, dtype=torch.float64, device=at_BL.device) / width
        decay_P = (share_P + options.gamma) / (1 + options.gamma)
        # Counted from the middle of the longest text, so that neither end leaves the range of float32.
        up_B1LP = decay_P ** ((at_B1L1 - self.dims.length // 2) / options.reach)
        return angles_B1LP.cos(), angles_B1LP.sin(), up_B1LP, 1 / up_B1LP
