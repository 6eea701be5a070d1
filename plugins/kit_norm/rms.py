"""Root mean square normalization (Zhang and Sennrich 2019): a mean square of 1, then a learned scale; no shift.

It is the norm of T5, Llama and Mistral, and with `weight: offset` that of Gemma.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Norm, Options, Site


class RmsOptions(Options):
    """A norm that leaves the mean alone."""

    use: Literal["rms"] = "rms"
    epsilon: PositiveFloat = 1e-6
    """Added to the mean square; 1e-6 in T5 and Llama, 1e-5 in Llama 2 and Mistral."""
    weight: Literal["plain", "offset"] = "plain"
    """Whether the scale is the weight, which begins at 1, or 1 + weight, which begins at 0 and decays to 0 (Gemma)."""


class RmsNorm(Norm):
    """Divides each vector by its root mean square."""

    options_type = RmsOptions
    options: RmsOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.weight = nn.Parameter(torch.full((dims.width,), float(options.weight == "plain")))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]."""
        weight = 1 + self.weight if self.options.weight == "offset" else self.weight
        return F.rms_norm(x, self.weight.shape, weight.to(x.dtype), self.options.epsilon)
