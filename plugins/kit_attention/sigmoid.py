"""Sigmoid attention: Theory, Analysis, and Best Practices for Sigmoid Self-Attention (Ramapuram et al. 2024).

Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E head dimension.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionContext, Capabilities, MultiHeadAttention, MultiHeadOptions


class SigmoidOptions(MultiHeadOptions):
    """Sigmoid attention: each weight is a sigmoid of its own score, without normalisation over keys."""

    use: Literal["sigmoid"] = "sigmoid"
    count: Literal["length", "seen"] = "length"
    """The n of the bias -ln n, which keeps weights near 1/n: the model's length (the paper), or the visible keys."""


class SigmoidAttention(MultiHeadAttention):
    """Weights are sigmoid(q · k / sqrt(head_dim) - ln n); they need not sum to one."""

    options_type = SigmoidOptions
    options: SigmoidOptions
    capabilities = Capabilities(weights_sum_to_one=False)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Sigmoids of biased scores, zero for masked keys: [B, H, Q, K]."""
        scores_BHQK = context.scores(q_BHQE, k_BGKE, self.scale)
        allowed = context.attention_mask
        if self.options.count == "length":
            weights_BHQK = torch.sigmoid(scores_BHQK - math.log(self.dims.length))
        elif allowed is None:
            weights_BHQK = torch.sigmoid(scores_BHQK - math.log(context.keys.length))
        else:
            seen = allowed.sum(-1, keepdim=True).clamp(min=1).to(scores_BHQK.dtype)
            weights_BHQK = torch.sigmoid(scores_BHQK - seen.log())
        return weights_BHQK if allowed is None else weights_BHQK.masked_fill(~allowed, 0.0)
