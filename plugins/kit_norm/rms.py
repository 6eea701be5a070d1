"""RMSNorm, root mean square layer normalization with a learned scale (Zhang and Sennrich 2019).

The norm of T5, Llama and Mistral, and with `weight: offset` that of Gemma.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BuildContext, Dims, Norm, Options


class RmsOptions(Options):
    """RMSNorm."""

    use: Literal["rms"] = "rms"
    epsilon: PositiveFloat = 1e-6
    """Epsilon added to the mean square; 1e-6 in T5 and Llama, 1e-5 in Llama 2 and Mistral."""
    weight: Literal["plain", "offset"] = "plain"
    """`plain`: the scale is the weight, initially 1. `offset`: it is 1 + weight, initially 0 (Gemma)."""


class RmsNorm(Norm):
    """Divides the last axis by its root mean square, then scales."""

    options_type = RmsOptions
    options: RmsOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.weight = nn.Parameter(torch.full((dims.width,), float(options.weight == "plain")))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; the same shape."""
        weight = 1 + self.weight if self.options.weight == "offset" else self.weight
        return F.rms_norm(x, self.weight.shape, weight.to(x.dtype), self.options.epsilon)
