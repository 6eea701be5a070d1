"""Softmax over the best few keys of each query: Explicit Sparse Transformer (Zhao et al. 2019).

Also Memory-efficient Transformers via Top-k Attention (Gupta et al. 2021).
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, Scope


class TopkOptions(MultiHeadOptions):
    """Only the keys with the highest scores count."""

    use: Literal["topk"] = "topk"
    keep: PositiveInt = 32
    """How many keys each query of each head keeps; keys that tie with the last of them are kept too."""


class TopkAttention(MultiHeadAttention):
    """Scores below the k-th highest that a query may see are dropped before the softmax."""

    options_type = TopkOptions
    options: TopkOptions

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """The choice itself has no gradient; the weights of what was chosen have."""
        scores_BHQK = scope.scores(q_BHQE, k_BGKE, self.scale)
        exporting = torch.compiler.is_exporting()  # for texts of any length, so none is looked at
        if not exporting and self.options.keep >= scores_BHQK.shape[-1]:
            return scope.weigh(scores_BHQK)
        seen_BHQK = scores_BHQK.detach()
        if scope.allowed is not None:
            seen_BHQK = seen_BHQK.masked_fill(~scope.allowed, float("-inf"))
        # Where fewer may be seen than are kept, the threshold is -inf and nothing is dropped.
        enough = F.pad(seen_BHQK, (0, self.options.keep), value=float("-inf")) if exporting else seen_BHQK
        threshold_BHQ1 = enough.topk(self.options.keep, -1).values[..., -1:]
        # Keys of equal tokens tie but for rounding, which differs between a whole text and a step: they stay together.
        rounding = torch.finfo(torch.promote_types(seen_BHQK.dtype, torch.float32)).eps
        slack_BHQ1 = 8 * rounding * (1 + threshold_BHQ1.abs())
        return scope.weigh(scores_BHQK.masked_fill(seen_BHQK < threshold_BHQ1 - slack_BHQ1, float("-inf")))
