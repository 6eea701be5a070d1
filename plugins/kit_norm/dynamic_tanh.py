"""Dynamic Tanh (DyT) in place of a norm: Transformers without Normalization (Zhu et al. 2025)."""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BuildContext, Dims, Norm, Options


class DynamicTanhOptions(Options):
    """DyT: weight · tanh(alpha · x) + bias, elementwise."""

    use: Literal["dynamic_tanh"] = "dynamic_tanh"
    steepness: PositiveFloat = 0.5
    """Initial alpha, one learned scalar; wider models need less."""


class DynamicTanhNorm(Norm):
    """Elementwise tanh with a learned scale, without statistics."""

    options_type = DynamicTanhOptions
    options: DynamicTanhOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.steepness = nn.Parameter(torch.tensor(options.steepness))
        self.weight = nn.Parameter(torch.ones(dims.width))
        self.bias = nn.Parameter(torch.zeros(dims.width))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; the same shape."""
        return torch.addcmul(self.bias, torch.tanh(self.steepness * x), self.weight)
