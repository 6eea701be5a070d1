"""The feed-forward layer of the textbook: Attention Is All You Need (Vaswani et al. 2017), section 3.3."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import HiddenFeedforward, HiddenOptions


class ReluOptions(HiddenOptions):
    """Up, max(0, x), down."""

    use: Literal["relu"] = "relu"


class ReluFeedforward(HiddenFeedforward):
    """Negative numbers become zero."""

    options_type = ReluOptions
    yardstick = True

    def activate(self, hidden: Tensor) -> Tensor:
        """max(0, x)."""
        return torch.relu(hidden)
