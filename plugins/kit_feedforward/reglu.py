"""ReGLU feed-forward layer: GLU Variants Improve Transformer (Shazeer 2020)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit_feedforward.gated import GatedFeedforward, GatedOptions


class RegluOptions(GatedOptions):
    """ReGLU: max(0, gate) · up."""

    use: Literal["reglu"] = "reglu"


class RegluFeedforward(GatedFeedforward):
    """max(0, gate) · up."""

    options_type = RegluOptions
    options: RegluOptions

    def activate(self, gate: Tensor) -> Tensor:
        """max(0, gate)."""
        return torch.relu(gate)
