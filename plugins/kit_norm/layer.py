"""Layer normalization (Ba et al. 2016): mean 0 and variance 1, then a learned scale and shift."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BuildContext, Dims, Norm, Options


class LayerOptions(Options):
    """Layer normalization."""

    use: Literal["layer"] = "layer"
    epsilon: PositiveFloat = 1e-5
    """Epsilon added to the variance; 1e-5 in PyTorch, 1e-12 in BERT, 1e-6 in many others."""
    bias: bool = True
    """Whether there is a learned shift."""


class LayerNorm(Norm):
    """Normalises the last axis by its mean and variance, then scales and shifts."""

    options_type = LayerOptions
    options: LayerOptions
    is_baseline = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.weight = nn.Parameter(torch.ones(dims.width))
        self.bias = nn.Parameter(torch.zeros(dims.width)) if options.bias else None

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; the same shape."""
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.options.epsilon)
