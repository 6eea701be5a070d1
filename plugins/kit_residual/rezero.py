"""ReZero, residual without a norm and with a learned scalar that starts at zero (Bachlechner et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class RezeroOptions(Options):
    """ReZero: x + weight · sublayer(x), with weight initially 0."""

    use: Literal["rezero"] = "rezero"
    weights: Literal["sublayer", "layer"] = "sublayer"
    """One weight per sublayer (the paper's formula), or per layer (the authors' code)."""


class RezeroResidual(Residual):
    """Layers start as identities; there are no norms."""

    options_type = RezeroOptions
    options: RezeroOptions
    uses_norm = False
    starts_as_identity = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        count = len(build_context.sublayers) if options.weights == "sublayer" else 1
        self.weights = nn.Parameter(torch.zeros(count))

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for weight, sublayer in zip(self.weights.expand(len(sublayers)), sublayers, strict=True):
            x = x + weight * self.dropout(sublayer(x))
        return x
