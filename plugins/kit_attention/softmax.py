"""Scaled dot-product attention in heads: Attention Is All You Need (Vaswani et al. 2017), section 3.2.

Soft-capped scores: Gemma 2 (Gemma Team 2024), section 2.
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key, F width of a value.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from kit import Abilities, MultiHeadAttention, MultiHeadOptions, Scope, repeat_groups


class SoftmaxOptions(MultiHeadOptions):
    """The attention of the textbook."""

    use: Literal["softmax"] = "softmax"
    scale: PositiveFloat | None = None
    """What dot products are multiplied by; left out, 1 / sqrt(width of a key). T5 takes 1, Gemma 2 of 27B 1/12."""
    cap: PositiveFloat | None = None
    """Bends scaled dot products into ±cap: cap · tanh(score / cap), before a position adds to it; left out, no cap."""


class SoftmaxAttention(MultiHeadAttention):
    """Each query takes values in proportion to exp(query · key / sqrt(width))."""

    options_type = SoftmaxOptions
    options: SoftmaxOptions
    abilities = Abilities(branches=True)
    yardstick = True

    @property
    def scale(self) -> float:
        """1 / sqrt(width of a key), unless the recipe says otherwise."""
        return self.options.scale or float(self.key_width**-0.5)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of scaled dot products, which may be capped."""
        cap = self.options.cap
        if cap is None:
            return super().weigh(q_BHQE, k_BGKE, scope)
        dots_BHQK = (q_BHQE * (self.scale / cap)) @ repeat_groups(k_BGKE, q_BHQE).transpose(-1, -2)
        scores_BHQK = cap * torch.tanh(dots_BHQK)
        bias = scope.bias(q_BHQE, k_BGKE)
        return scope.weigh(scores_BHQK if bias is None else scores_BHQK + bias)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """By torch's fused kernel, which knows no cap."""
        if self.options.cap is None:
            return self.attend_fused(q_BHQE, k_BGKE, v_BGKF, scope)
        return super().attend(q_BHQE, k_BGKE, v_BGKF, scope)

    def attend_packed(self, x: Tensor, memory: Tensor | None, scope: Scope) -> Tensor | None:
        """By a kernel that knows no cap either."""
        return self.attend_packed_fused(x, memory, scope) if self.options.cap is None else None
