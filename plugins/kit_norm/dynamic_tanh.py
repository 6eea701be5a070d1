"""No statistics, only a squashing curve: Transformers without Normalization (Zhu et al. 2025)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Norm, Options, Site


class DynamicTanhOptions(Options):
    """weight · tanh(steepness · x) + bias, each number by itself."""

    use: Literal["dynamic_tanh"] = "dynamic_tanh"
    steepness: PositiveFloat = 0.5
    """What the one learned factor within the tanh begins as; wider models want less."""


class DynamicTanhNorm(Norm):
    """Stands where a norm would, and looks at no other number of the vector."""

    options_type = DynamicTanhOptions
    options: DynamicTanhOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.steepness = nn.Parameter(torch.tensor(options.steepness))
        self.weight = nn.Parameter(torch.ones(dims.width))
        self.bias = nn.Parameter(torch.zeros(dims.width))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]."""
        return torch.addcmul(self.bias, torch.tanh(self.steepness * x), self.weight)
