"""Norm before the sublayer and a small learned weight on each number it gives: CaiT (Touvron et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class LayerscaleOptions(Options):
    """x becomes x + weights · sublayer(norm(x)), one weight a number of the vector."""

    use: Literal["layerscale"] = "layerscale"
    start: PositiveFloat | None = None
    """What weights begin as; left out, as the paper: 0.1 to depth 18, 1e-5 to depth 24, 1e-6 beyond."""

    def begin(self, depth: int) -> float:
        """What weights begin as in a stack of this depth."""
        if self.start is not None:
            return self.start
        return 0.1 if depth <= 18 else 1e-5 if depth <= 24 else 1e-6


class LayerscaleResidual(Residual):
    """Layers begin close to the identity; the stack ends in a norm."""

    options_type = LayerscaleOptions
    options: LayerscaleOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        start = options.begin(site.depth)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})
        self.scales = nn.ParameterDict({name: torch.full((dims.width,), start) for name in site.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for norm, scale, sublayer in zip(self.norms.values(), self.scales.values(), sublayers, strict=True):
            x = x + self.dropout(scale * sublayer(norm(x)))
        return x
