"""Scale normalization: one learned length for all vectors (Transformers without Tears, Nguyen and Salazar 2019)."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Norm, Options, Site


class ScaleOptions(Options):
    """Every vector gets the same length, a single learned number."""

    use: Literal["scale"] = "scale"
    epsilon: PositiveFloat = 1e-5
    """Vectors shorter than this are not blown up."""


class ScaleNorm(Norm):
    """g · x / |x|, where g begins at the square root of the width."""

    options_type = ScaleOptions
    options: ScaleOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.length = nn.Parameter(torch.tensor(float(dims.width) ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]."""
        return F.normalize(x, dim=-1, eps=self.options.epsilon) * self.length
