"""SwiGLU feed-forward layer: GLU Variants Improve Transformer (Shazeer 2020); used by Llama and Mistral."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit_feedforward.gated import GatedFeedforward, GatedOptions


class SwigluOptions(GatedOptions):
    """SwiGLU: silu(gate) · up."""

    use: Literal["swiglu"] = "swiglu"


class SwigluFeedforward(GatedFeedforward):
    """silu(gate) · up."""

    options_type = SwigluOptions
    options: SwigluOptions

    def activate(self, gate: Tensor) -> Tensor:
        """gate · sigmoid(gate)."""
        return F.silu(gate)
