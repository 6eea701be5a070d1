"""Multi-head additive attention: scores from a one-layer network (Bahdanau et al. 2015).

Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E head dimension.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Capabilities, Dims, MultiHeadAttention, MultiHeadOptions, repeat_kv


class AdditiveOptions(MultiHeadOptions):
    """Additive (Bahdanau) attention: a one-layer network scores each pair of query and key."""

    use: Literal["additive"] = "additive"


class AdditiveAttention(MultiHeadAttention):
    """Scores are v · tanh(q + k), with one learned vector v per head."""

    options_type = AdditiveOptions
    options: AdditiveOptions
    # RoPE makes dot products depend on distance; tanh(q + k) would not, so rotations are not supported.
    capabilities = Capabilities(positions=frozenset({"bias", "content_bias"}))
    per_head_parameters = ("score",)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.score = nn.Parameter(torch.empty(self.heads, self.head_dim))
        nn.init.normal_(self.score, std=self.head_dim**-0.5)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of v · tanh(q + k) plus any position bias: [B, H, Q, K]."""
        k_BHKE = repeat_kv(k_BGKE, q_BHQE)
        hidden_BHQKE = torch.tanh(q_BHQE[:, :, :, None] + k_BHKE[:, :, None])
        scores_BHQK = hidden_BHQKE @ self.score[None, :, None, :, None]
        bias = context.bias(q_BHQE, k_BGKE)
        scores_BHQK = scores_BHQK.squeeze(-1)
        return context.masked_softmax(scores_BHQK if bias is None else scores_BHQK + bias)
