"""Layer normalization (Ba et al. 2016): mean 0 and variance 1, then a learned scale and shift."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Norm, Options, Site


class LayerOptions(Options):
    """The norm of the textbook."""

    use: Literal["layer"] = "layer"
    epsilon: PositiveFloat = 1e-5
    """Added to the variance; 1e-5 in torch, 1e-12 in BERT, 1e-6 in many others."""
    bias: bool = True
    """Whether there is a learned shift."""


class LayerNorm(Norm):
    """Normalises each vector by its own mean and variance."""

    options_type = LayerOptions
    options: LayerOptions
    yardstick = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.weight = nn.Parameter(torch.ones(dims.width))
        self.bias = nn.Parameter(torch.zeros(dims.width)) if options.bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.options.epsilon)
