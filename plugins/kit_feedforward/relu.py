"""Feed-forward layer with ReLU: Attention Is All You Need (Vaswani et al. 2017), section 3.3."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import MLP, MLPOptions


class ReluOptions(MLPOptions):
    """MLP with ReLU."""

    use: Literal["relu"] = "relu"


class ReluFeedforward(MLP):
    """down(max(0, up(x)))."""

    options_type = ReluOptions
    is_baseline = True

    def activate(self, hidden: Tensor) -> Tensor:
        """max(0, x)."""
        return torch.relu(hidden)
