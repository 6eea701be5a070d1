"""Softmax attention with linear mixing across heads: Talking-Heads Attention (Shazeer et al. 2020).

Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E head dimension.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Capabilities, Dims, MultiHeadAttention, MultiHeadOptions, repeat_kv


class TalkingHeadsOptions(MultiHeadOptions):
    """Talking heads: logits are mixed across heads before the softmax, and weights after it."""

    use: Literal["talking_heads"] = "talking_heads"


class TalkingHeadsAttention(MultiHeadAttention):
    """Two [H, H] matrices, one for logits and one for weights, initialised as identities."""

    options_type = TalkingHeadsOptions
    options: TalkingHeadsOptions
    capabilities = Capabilities(weights_sum_to_one=False)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.mix_scores = nn.Parameter(torch.eye(self.heads))
        self.mix_weights = nn.Parameter(torch.eye(self.heads))

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Mixed weights [B, H, Q, K]; a position bias belongs to one head, so it is added after the first mixing."""
        scores_BHQK = (q_BHQE * self.scale) @ repeat_kv(k_BGKE, q_BHQE).transpose(-1, -2)
        scores_BHQK = torch.einsum("hi,bhqk->biqk", self.mix_scores, scores_BHQK)
        bias = context.bias(q_BHQE, k_BGKE)
        weights_BHQK = context.masked_softmax(scores_BHQK if bias is None else scores_BHQK + bias)
        return torch.einsum("hi,bhqk->biqk", self.mix_weights, weights_BHQK)
