"""Feed-forward layer with GELU (Hendrycks and Gimpel 2016)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit import MLP, MLPOptions


class GeluOptions(MLPOptions):
    """MLP with GELU, x · Φ(x)."""

    use: Literal["gelu"] = "gelu"
    approximate: Literal["none", "tanh"] = "none"
    """Exact (BERT), or the tanh approximation (GPT-2)."""


class GeluFeedforward(MLP):
    """down(gelu(up(x)))."""

    options_type = GeluOptions
    options: GeluOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """x · Φ(x)."""
        return F.gelu(hidden, approximate=self.options.approximate)
