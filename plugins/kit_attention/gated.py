"""Softmax attention whose output passes a sigmoid gate: Gated Attention for Large Language Models (Qiu et al. 2025).

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key, F width of a value.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Dims, MultiHeadAttention, MultiHeadOptions, Scope, Site


class GatedOptions(MultiHeadOptions):
    """Each token decides from its own vector how much of what it saw it keeps."""

    use: Literal["gated"] = "gated"
    gate: Literal["element", "head"] = "element"
    """One gate for each number that a head gives, or one for each head."""


class GatedAttention(MultiHeadAttention):
    """What the heads give is multiplied by sigmoid(x · gate) before the output projection."""

    options_type = GatedOptions
    options: GatedOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        gates = self.heads * (self.value_width if options.gate == "element" else 1)
        self.gate = nn.Linear(dims.width, gates, options.bias)
        nn.init.xavier_uniform_(self.gate.weight)
        if self.gate.bias is not None:
            nn.init.zeros_(self.gate.bias)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """By torch's fused kernel."""
        return self.attend_fused(q_BHQE, k_BGKE, v_BGKF, scope)

    def attend_packed(self, x: Tensor, memory: Tensor | None, scope: Scope) -> Tensor | None:
        """By the kernel for packed texts."""
        return self.attend_packed_fused(x, memory, scope)

    def join(self, out: Tensor, x: Tensor) -> Tensor:
        """Gate, then mix the heads."""
        open_ = torch.sigmoid(self.gate(x))
        if self.options.gate == "head":
            open_ = open_.repeat_interleave(self.value_width, -1)
        return super().join(out * open_, x)
