"""Softmax attention with a sink: an extra logit without a value, so that weights may sum to less than one.

Learned, one per head: gpt-oss (OpenAI 2025), after StreamingLLM (Xiao et al. 2024); zero: softmax-one (Miller 2023).
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E head dimension.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Capabilities, Dims, MultiHeadAttention, MultiHeadOptions


class SinkOptions(MultiHeadOptions):
    """Attention sink: a softmax that may put weight on no key."""

    use: Literal["sink"] = "sink"
    logit: Literal["learned", "softmax_one"] = "learned"
    """The sink's logit: learned per head from zero, or fixed at zero: exp(s) / (1 + sum of exp(s)) (softmax-one)."""


class SinkAttention(MultiHeadAttention):
    """Adds one logit without a value to each query's softmax."""

    options_type = SinkOptions
    options: SinkOptions
    capabilities = Capabilities(weights_sum_to_one=False)
    sink: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        zeros = torch.zeros(self.heads, 1, 1)
        if options.logit == "learned":
            self.sink = nn.Parameter(zeros)
        else:
            self.register_buffer("sink", zeros, persistent=False)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax over keys and sink, without the sink's column; zeros for fully masked queries: [B, H, Q, K]."""
        scores_BHQK = context.scores(q_BHQE, k_BGKE, self.scale)
        if context.attention_mask is not None:
            scores_BHQK = scores_BHQK.masked_fill(~context.attention_mask, float("-inf"))
        sink_BHQ1 = self.sink.to(scores_BHQK.dtype).expand(*scores_BHQK.shape[:-1], 1)
        return torch.cat([scores_BHQK, sink_BHQ1], -1).softmax(-1)[..., :-1]
