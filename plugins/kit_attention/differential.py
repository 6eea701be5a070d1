"""The difference of two softmax maps: Differential Transformer (Ye et al. 2024).

`heads` counts pairs: queries h and h + H make pair h of H, and keys and values are paired in the same way.
Shapes: B rows, P = 2H queries a token, H pairs, G groups of keys (2 a pair), Q queries, K keys, E width of a query or
key, F half the width of a pair's value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import Abilities, Dims, MultiHeadAttention, MultiHeadOptions, Problem, Scope, Site, drop, repeat_groups


class DifferentialOptions(MultiHeadOptions):
    """What two maps have in common is noise, and is taken away.

    `heads` counts pairs of maps and `groups` pairs of keys. A `key_width` left out is the model's width over twice the
    heads, a `value_width` left out is twice the key's.
    """

    use: Literal["differential"] = "differential"
    balance: Literal["head", "layer"] = "head"
    """Who learns how much of the second map is taken away: each head, or the layer for all its heads (the paper)."""


class DifferentialAttention(MultiHeadAttention):
    """(softmax(q1 · k1) - balance · softmax(q2 · k2)) times values, then an RMS norm for each head."""

    options_type = DifferentialOptions
    options: DifferentialOptions
    abilities = Abilities(shares=False)

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        pairs = {
            "groups": 2 * (options.groups or options.heads),
            "value_width": options.value_width and options.value_width // 2,
        }
        super().__init__(options.model_copy(update=pairs), dims, site)
        self.options = options
        self.first_balance = 0.8 - 0.6 * math.exp(-0.3 * site.layer)
        count = options.heads if options.balance == "head" else 1
        self.balance_queries = nn.Parameter(torch.empty(2, count, self.key_width))
        self.balance_keys = nn.Parameter(torch.empty(2, count, self.key_width))
        self.gain = nn.Parameter(torch.ones(2 * self.value_width))
        for parameter in (self.balance_queries, self.balance_keys):
            nn.init.normal_(parameter, std=0.1)

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """Two queries a head, each half as wide."""
        return 2 * options.heads, options.key_width or max(1, dims.width // (2 * options.heads))

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Twice the heads must divide the width, and a value is made of two halves."""
        problems = list(super().check(options, dims, site))
        yield from problems
        if not problems and options.key_width is None and dims.width % (2 * options.heads):
            yield site.problem(
                f"{options.heads} heads have two queries each, and {2 * options.heads} do not divide {dims.width}",
                "heads",
                hint="take a number of heads that divides half the width, or name a key_width",
            )
        if options.value_width is not None and options.value_width % 2:
            yield site.problem(
                f"a value is made of two halves, and the width {options.value_width} is odd",
                "value_width",
                hint=f"take {options.value_width + 1}",
            )

    def balance(self) -> Tensor:
        """How much of the second map is taken away: [H or 1, 1, 1]."""
        parts = (self.balance_queries * self.balance_keys).sum(-1).exp()
        return (parts[0] - parts[1] + self.first_balance)[:, None, None]

    def weigh(self, q_BPQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """The difference of the two maps: [B, H, Q, K]; rows sum to one minus the balance."""
        first_BHQK, second_BHQK = scope.weigh(scope.scores(q_BPQE, k_BGKE, self.scale)).chunk(2, 1)
        return first_BHQK - self.balance() * second_BHQK

    def attend(self, q_BPQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """By torch's fused kernel, half a value at a time: values wider than keys would keep it from its fast path."""
        dropout = self.options.dropout if self.training else 0.0
        if dropout > 0:
            # Both maps must drop the same keys, or their common part would no longer cancel.
            return super().attend(q_BPQE, k_BGKE, v_BGKF, scope)
        halves = (half.repeat(1, 2, 1, 1) for half in v_BGKF.chunk(2, 1))
        outs = [scope.attend(q_BPQE, k_BGKE, half, self.scale) for half in halves]
        first_BHQF, second_BHQF = torch.cat(outs, -1).chunk(2, 1)
        return self.normalise(first_BHQF - self.balance() * second_BHQF)

    def mix(self, weights_BHQK: Tensor, v_BGKF: Tensor) -> Tensor:
        """Whole values by weight, normed: [B, H, Q, 2F]."""
        values = repeat_groups(torch.cat(v_BGKF.chunk(2, 1), -1), weights_BHQK)
        return self.normalise(drop(weights_BHQK, self.options.dropout, self.training) @ values)

    def normalise(self, out: Tensor) -> Tensor:
        """Each head by itself, scaled so that gradients are those of plain attention at the start: [B, H, Q, 2F]."""
        return F.rms_norm(out, out.shape[-1:], eps=1e-5) * (self.gain * (1 - self.first_balance))
