"""LayerScale, pre-norm with a small learned scale per channel: CaiT (Touvron et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class LayerscaleOptions(Options):
    """LayerScale: x + scale · sublayer(norm(x)), one learned scale per channel."""

    use: Literal["layerscale"] = "layerscale"
    start: PositiveFloat | None = None
    """Initial scale; left out, as in the paper: 0.1 up to depth 18, 1e-5 up to 24, 1e-6 beyond."""

    def begin(self, depth: int) -> float:
        """The initial scale for a stack of this depth."""
        if self.start is not None:
            return self.start
        return 0.1 if depth <= 18 else 1e-5 if depth <= 24 else 1e-6


class LayerscaleResidual(Residual):
    """Pre-norm layers that start close to the identity; the stack ends in a norm."""

    options_type = LayerscaleOptions
    options: LayerscaleOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        start = options.begin(build_context.depth)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})
        self.scales = nn.ParameterDict({name: torch.full((dims.width,), start) for name in build_context.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for norm, scale, sublayer in zip(self.norms.values(), self.scales.values(), sublayers, strict=True):
            x = x + self.dropout(scale * sublayer(norm(x)))
        return x
