"""Scaled dot-product attention in heads: Attention Is All You Need (Vaswani et al. 2017), section 3.2.

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key, F width of a value.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, Scope


class SoftmaxOptions(MultiHeadOptions):
    """The attention of the textbook."""

    use: Literal["softmax"] = "softmax"
    scaled: bool = True
    """Whether scores are divided by the square root of the key's width; T5 leaves it out."""


class SoftmaxAttention(MultiHeadAttention):
    """Each query takes values in proportion to exp(query · key / sqrt(width))."""

    options_type = SoftmaxOptions
    options: SoftmaxOptions

    @property
    def scale(self) -> float:
        """1 / sqrt(width of a key), or 1."""
        return float(self.key_width**-0.5) if self.options.scaled else 1.0

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """By torch's fused kernel, except where weights are dropped: that leaves the fast path on a CPU anyway."""
        if self.training and self.options.dropout > 0 and q_BHQE.device.type == "cpu":
            return super().attend(q_BHQE, k_BGKE, v_BGKF, scope)
        dropout = self.options.dropout if self.training else 0.0
        return scope.attend(q_BHQE, k_BGKE, v_BGKF, self.scale, dropout)
