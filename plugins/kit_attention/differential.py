"""Differential attention, the difference of two softmax maps: Differential Transformer (Ye et al. 2024).

`heads` counts pairs: query heads h and h + H make pair h of H, and keys and values are paired in the same way.
Shapes: B batch, P = 2H query heads, H pairs, G key-value heads (2 per pair), Q queries, K keys, E head dimension, F
half the value dimension of a pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BuildContext,
    Capabilities,
    Dims,
    MultiHeadAttention,
    MultiHeadOptions,
    Problem,
    drop,
    repeat_kv,
)


class DifferentialOptions(MultiHeadOptions):
    """Subtracts a second softmax map from the first, which cancels the noise that both have.

    `heads` counts pairs of query heads and `kv_heads` pairs of key-value heads. `head_dim` defaults to the model's
    width over twice the heads, `value_head_dim` to twice the `head_dim`.
    """

    use: Literal["differential"] = "differential"
    balance: Literal["head", "layer"] = "head"
    """Whether lambda, the factor of the second map, is learned per head or per layer (the paper)."""


class DifferentialAttention(MultiHeadAttention):
    """(softmax(q1 · k1) - lambda · softmax(q2 · k2)) · v, then an RMS norm per head."""

    options_type = DifferentialOptions
    options: DifferentialOptions
    capabilities = Capabilities(weights_sum_to_one=False)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        pairs = {
            "kv_heads": 2 * (options.kv_heads or options.heads),
            "value_head_dim": options.value_head_dim and options.value_head_dim // 2,
        }
        super().__init__(options.model_copy(update=pairs), dims, build_context)
        self.options = options
        self.first_balance = 0.8 - 0.6 * math.exp(-0.3 * build_context.layer)
        count = options.heads if options.balance == "head" else 1
        self.balance_queries = nn.Parameter(torch.empty(2, count, self.head_dim))
        self.balance_keys = nn.Parameter(torch.empty(2, count, self.head_dim))
        self.gain = nn.Parameter(torch.ones(2 * self.value_head_dim))
        for parameter in (self.balance_queries, self.balance_keys):
            nn.init.normal_(parameter, std=0.1)

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """Twice the heads, each half as wide."""
        return 2 * options.heads, options.head_dim or max(1, dims.width // (2 * options.heads))

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Twice the heads must divide the width, and a value head must have an even dimension."""
        problems = list(super().check(options, dims, build_context))
        yield from problems
        if not problems and options.head_dim is None and dims.width % (2 * options.heads):
            yield build_context.problem(
                f"{options.heads} heads have two queries each, and {2 * options.heads} do not divide {dims.width}",
                "heads",
                hint="take a number of heads that divides half the width, or name a head_dim",
            )
        if options.value_head_dim is not None and options.value_head_dim % 2:
            yield build_context.problem(
                f"a value is made of two halves, and the width {options.value_head_dim} is odd",
                "value_head_dim",
                hint=f"take {options.value_head_dim + 1}",
            )

    def balance(self) -> Tensor:
        """Lambda, the factor of the second map: [H or 1, 1, 1]."""
        parts = (self.balance_queries * self.balance_keys).sum(-1).exp()
        return (parts[0] - parts[1] + self.first_balance)[:, None, None]

    def attention_weights(self, q_BPQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """The difference of the two maps: [B, H, Q, K]; rows sum to 1 - lambda."""
        first_BHQK, second_BHQK = context.masked_softmax(context.scores(q_BPQE, k_BGKE, self.scale)).chunk(2, 1)
        return first_BHQK - self.balance() * second_BHQK

    def attend(self, q_BPQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Two calls of a fused kernel, one for each half of the values: values wider than keys would rule it out."""
        dropout = self.options.dropout if self.training else 0.0
        if dropout > 0:
            # Both maps must drop the same keys, or their common noise would no longer cancel.
            return super().attend(q_BPQE, k_BGKE, v_BGKF, context)
        halves = (half.repeat(1, 2, 1, 1) for half in v_BGKF.chunk(2, 1))
        outs = [context.attend(q_BPQE, k_BGKE, half, self.scale) for half in halves]
        first_BHQF, second_BHQF = torch.cat(outs, -1).chunk(2, 1)
        return self.normalise(first_BHQF - self.balance() * second_BHQF)

    def weighted_sum(self, weights_BHQK: Tensor, v_BGKF: Tensor) -> Tensor:
        """Normalised weighted sum of whole values: [B, H, Q, 2F]."""
        values = repeat_kv(torch.cat(v_BGKF.chunk(2, 1), -1), weights_BHQK)
        return self.normalise(drop(weights_BHQK, self.options.dropout, self.training) @ values)

    def normalise(self, out: Tensor) -> Tensor:
        """RMS norm per head, scaled by 1 - initial lambda as in the paper: [B, H, Q, 2F]."""
        return F.rms_norm(out, out.shape[-1:], eps=1e-5) * (self.gain * (1 - self.first_balance))
