"""GLU feed-forward layer: Language Modeling with Gated Convolutional Networks (Dauphin et al. 2017)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit_feedforward.gated import GatedFeedforward, GatedOptions


class GluOptions(GatedOptions):
    """GLU: sigmoid(gate) · up."""

    use: Literal["glu"] = "glu"


class GluFeedforward(GatedFeedforward):
    """sigmoid(gate) · up."""

    options_type = GluOptions
    options: GluOptions

    def activate(self, gate: Tensor) -> Tensor:
        """1 / (1 + exp(-gate))."""
        return torch.sigmoid(gate)
