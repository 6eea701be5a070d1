"""A learned weight on each sublayer that starts at zero, and no norm: ReZero (Bachlechner et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class RezeroOptions(Options):
    """x becomes x + weight · sublayer(x), and weight begins as 0."""

    use: Literal["rezero"] = "rezero"
    weights: Literal["sublayer", "layer"] = "sublayer"
    """Whether each sublayer has a weight (the paper's formula), or those of a layer share one (the authors' code)."""


class RezeroResidual(Residual):
    """Every layer begins as the identity, so that a signal reaches any depth; nothing is normalised."""

    options_type = RezeroOptions
    options: RezeroOptions
    uses_norm = False
    starts_as_identity = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        count = len(site.sublayers) if options.weights == "sublayer" else 1
        self.weights = nn.Parameter(torch.zeros(count))

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for weight, sublayer in zip(self.weights.expand(len(sublayers)), sublayers, strict=True):
            x = x + weight * self.dropout(sublayer(x))
        return x
