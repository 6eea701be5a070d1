"""GEGLU feed-forward layer: GLU Variants Improve Transformer (Shazeer 2020); used by T5 v1.1 and Gemma."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit_feedforward.gated import GatedFeedforward, GatedOptions


class GegluOptions(GatedOptions):
    """GEGLU: gelu(gate) · up."""

    use: Literal["geglu"] = "geglu"
    approximate: Literal["none", "tanh"] = "none"
    """Exact, or the tanh approximation (T5 v1.1, Gemma)."""


class GegluFeedforward(GatedFeedforward):
    """gelu(gate) · up."""

    options_type = GegluOptions
    options: GegluOptions

    def activate(self, gate: Tensor) -> Tensor:
        """gate · Φ(gate)."""
        return F.gelu(gate, approximate=self.options.approximate)
