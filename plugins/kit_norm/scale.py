"""ScaleNorm, L2 normalization with one learned length: Transformers without Tears (Nguyen and Salazar 2019)."""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BuildContext, Dims, Norm, Options


class ScaleOptions(Options):
    """ScaleNorm: all vectors get the same learned length."""

    use: Literal["scale"] = "scale"
    epsilon: PositiveFloat = 1e-5
    """Lower bound of the length that vectors are divided by."""


class ScaleNorm(Norm):
    """g · x / |x|, with g initially sqrt(width)."""

    options_type = ScaleOptions
    options: ScaleOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.length = nn.Parameter(torch.tensor(float(dims.width) ** 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; the same shape."""
        return F.normalize(x, dim=-1, eps=self.options.epsilon) * self.length
