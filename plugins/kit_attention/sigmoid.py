"""Sigmoid attention: Theory, Analysis, and Best Practices for Sigmoid Self-Attention (Ramapuram et al. 2024).

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from kit import Abilities, MultiHeadAttention, MultiHeadOptions, Scope


class SigmoidOptions(MultiHeadOptions):
    """Every pair is weighed by itself, so that keys do not compete."""

    use: Literal["sigmoid"] = "sigmoid"
    count: Literal["length", "seen"] = "length"
    """The n of the bias -ln n, which keeps weights near 1/n: the model's length (the paper), or keys seen."""


class SigmoidAttention(MultiHeadAttention):
    """Weights are sigmoid(query · key / sqrt(width) - ln n); they need not sum to one."""

    options_type = SigmoidOptions
    options: SigmoidOptions
    abilities = Abilities(shares=False)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Hidden keys weigh nothing."""
        scores_BHQK = scope.scores(q_BHQE, k_BGKE, self.scale)
        allowed = scope.allowed
        if self.options.count == "length":
            weights_BHQK = torch.sigmoid(scores_BHQK - math.log(self.dims.length))
        elif allowed is None:
            weights_BHQK = torch.sigmoid(scores_BHQK - math.log(scope.keys.length))
        else:
            seen = allowed.sum(-1, keepdim=True).clamp(min=1).to(scores_BHQK.dtype)
            weights_BHQK = torch.sigmoid(scores_BHQK - seen.log())
        return weights_BHQK if allowed is None else weights_BHQK.masked_fill(~allowed, 0.0)
