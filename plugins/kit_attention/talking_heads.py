"""Heads that mix their scores and their weights: Talking-Heads Attention (Shazeer et al. 2020).

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Abilities, Dims, MultiHeadAttention, MultiHeadOptions, Scope, Site, repeat_groups


class TalkingHeadsOptions(MultiHeadOptions):
    """Heads hear each other before and after the softmax."""

    use: Literal["talking_heads"] = "talking_heads"


class TalkingHeadsAttention(MultiHeadAttention):
    """Two square matrices over heads, one for scores and one for weights; both begin as identities."""

    options_type = TalkingHeadsOptions
    options: TalkingHeadsOptions
    abilities = Abilities(shares=False)

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.mix_scores = nn.Parameter(torch.eye(self.heads))
        self.mix_weights = nn.Parameter(torch.eye(self.heads))

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """What a position adds belongs to the head that it was made for, so it comes after the first mixing."""
        scores_BHQK = (q_BHQE * self.scale) @ repeat_groups(k_BGKE, q_BHQE).transpose(-1, -2)
        scores_BHQK = torch.einsum("hi,bhqk->biqk", self.mix_scores, scores_BHQK)
        bias = scope.bias(q_BHQE, k_BGKE)
        weights_BHQK = scope.weigh(scores_BHQK if bias is None else scores_BHQK + bias)
        return torch.einsum("hi,bhqk->biqk", self.mix_weights, weights_BHQK)
