"""Squared ReLU: Primer, Searching for Efficient Transformers (So et al. 2021)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import HiddenFeedforward, HiddenOptions


class SquaredReluOptions(HiddenOptions):
    """Up, max(0, x)², down."""

    use: Literal["squared_relu"] = "squared_relu"


class SquaredReluFeedforward(HiddenFeedforward):
    """Large numbers count more, and the hidden layer is sparser in effect."""

    options_type = SquaredReluOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """max(0, x)²."""
        return torch.relu(hidden).square()
