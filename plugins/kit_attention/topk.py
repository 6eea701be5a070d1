"""Top-k softmax attention over the highest scores of each query: Explicit Sparse Transformer (Zhao et al. 2019).

Also Memory-efficient Transformers via Top-k Attention (Gupta et al. 2021).
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E head dimension.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions


class TopkOptions(MultiHeadOptions):
    """Top-k attention: each query attends to the keys with the highest scores only."""

    use: Literal["topk"] = "topk"
    keep: PositiveInt = 32
    """k: keys that each query of each head keeps; ties with the last of them are kept too."""


class TopkAttention(MultiHeadAttention):
    """Masks scores below the k-th highest visible one before the softmax."""

    options_type = TopkOptions
    options: TopkOptions

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax over the chosen keys [B, H, Q, K]; the choice itself has no gradient."""
        scores_BHQK = context.scores(q_BHQE, k_BGKE, self.scale)
        exporting = torch.compiler.is_exporting()  # a graph for any length must not branch on one
        if not exporting and self.options.keep >= scores_BHQK.shape[-1]:
            return context.masked_softmax(scores_BHQK)
        seen_BHQK = scores_BHQK.detach()
        if context.attention_mask is not None:
            seen_BHQK = seen_BHQK.masked_fill(~context.attention_mask, float("-inf"))
        # Where fewer are visible than kept, the threshold is -inf and nothing is masked.
        enough = F.pad(seen_BHQK, (0, self.options.keep), value=float("-inf")) if exporting else seen_BHQK
        threshold_BHQ1 = enough.topk(self.options.keep, -1).values[..., -1:]
        # Equal tokens tie but for rounding, which differs between a whole sequence and a decoding step: keep both.
        rounding = torch.finfo(torch.promote_types(seen_BHQK.dtype, torch.float32)).eps
        slack_BHQ1 = 8 * rounding * (1 + threshold_BHQ1.abs())
        return context.masked_softmax(scores_BHQK.masked_fill(seen_BHQK < threshold_BHQ1 - slack_BHQ1, float("-inf")))
