"""Feed-forward with Gaussian error linear units (Hendrycks and Gimpel 2016)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit import HiddenFeedforward, HiddenOptions


class GeluOptions(HiddenOptions):
    """Up, x times the chance that a normal number is below x, down."""

    use: Literal["gelu"] = "gelu"
    approximate: Literal["none", "tanh"] = "none"
    """Exact (BERT), or by a tanh (GPT-2)."""


class GeluFeedforward(HiddenFeedforward):
    """A smooth relu."""

    options_type = GeluOptions
    options: GeluOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """x · Φ(x)."""
        return F.gelu(hidden, approximate=self.options.approximate)
