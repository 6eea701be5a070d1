"""Softmax attention with a sigmoid output gate: Gated Attention for Large Language Models (Qiu et al. 2025).

Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E and F dimensions of keys and values.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Dims, MultiHeadAttention, MultiHeadOptions


class GatedOptions(MultiHeadOptions):
    """A sigmoid gate, computed from the token itself, multiplies the output of the heads."""

    use: Literal["gated"] = "gated"
    gate: Literal["element", "head"] = "element"
    """One gate per element of the heads' outputs, or one per head."""


class GatedAttention(MultiHeadAttention):
    """The heads' outputs are multiplied by sigmoid(x W_gate) before the output projection."""

    options_type = GatedOptions
    options: GatedOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        gates = self.heads * (self.value_head_dim if options.gate == "element" else 1)
        self.gate = nn.Linear(dims.width, gates, options.bias)
        nn.init.xavier_uniform_(self.gate.weight)
        if self.gate.bias is not None:
            nn.init.zeros_(self.gate.bias)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Scaled dot-product attention by a fused kernel: [B, H, Q, F]."""
        return self.sdpa(q_BHQE, k_BGKE, v_BGKF, context)

    def varlen_attend(self, x: Tensor, memory: Tensor | None, context: AttentionContext) -> Tensor | None:
        """The same by a varlen kernel, where one takes it: [N, H · F]."""
        return self.varlen_sdpa(x, memory, context)

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        """Gate, then project: [..., D]."""
        open_ = torch.sigmoid(self.gate(x))
        if self.options.gate == "head":
            open_ = open_.repeat_interleave(self.value_head_dim, -1)
        return super().project_output(out * open_, x)
