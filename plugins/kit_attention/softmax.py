"""Multi-head scaled dot-product attention: Attention Is All You Need (Vaswani et al. 2017), section 3.2.

Grouped-query attention: Ainslie et al. 2023. Logit soft-capping: Gemma 2 (Gemma Team 2024), section 2.
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E and F dimensions of keys and values.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from kit import AttentionContext, Capabilities, MultiHeadAttention, MultiHeadOptions, repeat_kv


class SoftmaxOptions(MultiHeadOptions):
    """Multi-head attention, with grouped or single key-value heads by `kv_heads` (GQA, MQA)."""

    use: Literal["softmax"] = "softmax"
    scale: PositiveFloat | None = None
    """Factor of dot products; left out, 1 / sqrt(head_dim). T5 uses 1, Gemma 2 27B 1/12."""
    logit_softcap: PositiveFloat | None = None
    """Soft cap c of scaled dot products, c · tanh(score / c), applied before position biases; left out, none."""


class SoftmaxAttention(MultiHeadAttention):
    """softmax(q · k / sqrt(head_dim)) · v."""

    options_type = SoftmaxOptions
    options: SoftmaxOptions
    capabilities = Capabilities(supports_shared_beams=True)
    is_baseline = True

    @property
    def scale(self) -> float:
        """Factor of dot products, 1 / sqrt(head_dim) by default."""
        return self.options.scale or float(self.head_dim**-0.5)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of scaled, possibly soft-capped dot products: [B, H, Q, K]."""
        logit_softcap = self.options.logit_softcap
        if logit_softcap is None:
            return super().attention_weights(q_BHQE, k_BGKE, context)
        dots_BHQK = (q_BHQE * (self.scale / logit_softcap)) @ repeat_kv(k_BGKE, q_BHQE).transpose(-1, -2)
        scores_BHQK = logit_softcap * torch.tanh(dots_BHQK)
        bias = context.bias(q_BHQE, k_BGKE)
        return context.masked_softmax(scores_BHQK if bias is None else scores_BHQK + bias)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Scaled dot-product attention, by a fused kernel where there is no soft cap: [B, H, Q, F]."""
        if self.options.logit_softcap is None:
            return self.sdpa(q_BHQE, k_BGKE, v_BGKF, context)
        return super().attend(q_BHQE, k_BGKE, v_BGKF, context)

    def varlen_attend(self, x: Tensor, memory: Tensor | None, context: AttentionContext) -> Tensor | None:
        """The same by a varlen kernel, where there is no soft cap: [N, H · F]."""
        return self.varlen_sdpa(x, memory, context) if self.options.logit_softcap is None else None
