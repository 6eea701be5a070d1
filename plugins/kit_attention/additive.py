"""Additive attention, in heads: Jointly Learning to Align and Translate (Bahdanau et al. 2015).

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Abilities, Dims, MultiHeadAttention, MultiHeadOptions, Scope, Site, repeat_groups


class AdditiveOptions(MultiHeadOptions):
    """The attention of 2015: a small network scores each pair of query and key."""

    use: Literal["additive"] = "additive"


class AdditiveAttention(MultiHeadAttention):
    """Scores are v · tanh(query + key), one vector v a head."""

    options_type = AdditiveOptions
    options: AdditiveOptions
    # A rotation is meant for dot products, so turning queries and keys would say nothing here.
    abilities = Abilities(positions=frozenset({"bias", "interact"}))
    by_head = ("score",)

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.score = nn.Parameter(torch.empty(self.heads, self.key_width))
        nn.init.normal_(self.score, std=self.key_width**-0.5)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of the small network's scores."""
        k_BHKE = repeat_groups(k_BGKE, q_BHQE)
        hidden_BHQKE = torch.tanh(q_BHQE[:, :, :, None] + k_BHKE[:, :, None])
        scores_BHQK = hidden_BHQKE @ self.score[None, :, None, :, None]
        bias = scope.bias(q_BHQE, k_BGKE)
        scores_BHQK = scores_BHQK.squeeze(-1)
        return scope.weigh(scores_BHQK if bias is None else scores_BHQK + bias)
