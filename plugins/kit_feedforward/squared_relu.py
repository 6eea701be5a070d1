"""Feed-forward layer with squared ReLU: Primer, Searching for Efficient Transformers (So et al. 2021)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import MLP, MLPOptions


class SquaredReluOptions(MLPOptions):
    """MLP with squared ReLU."""

    use: Literal["squared_relu"] = "squared_relu"


class SquaredReluFeedforward(MLP):
    """down(max(0, up(x))²)."""

    options_type = SquaredReluOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """max(0, x)²."""
        return torch.relu(hidden).square()
