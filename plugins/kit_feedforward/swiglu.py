"""A gate of SiLU: GLU Variants Improve Transformer (Shazeer 2020); the feed-forward layer of Llama and Mistral."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit_feedforward.gated import GatedFeedforward, GatedOptions


class SwigluOptions(GatedOptions):
    """A gate that is smooth and not bounded above."""

    use: Literal["swiglu"] = "swiglu"


class SwigluFeedforward(GatedFeedforward):
    """silu(gate) · up."""

    options_type = SwigluOptions
    options: SwigluOptions

    def activate(self, gate: Tensor) -> Tensor:
        """gate · sigmoid(gate)."""
        return F.silu(gate)
