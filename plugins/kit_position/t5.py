"""T5 relative position biases, one scalar per bucket and head: Raffel et al. 2020, section 2.1.

Shapes: B batch, H heads, Q queries, K keys, N buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Position, Problem


class T5Options(Options):
    """T5 relative position biases: exact buckets near, logarithmic ones far, one beyond `farthest`."""

    use: Literal["t5"] = "t5"
    buckets: PositiveInt = 32
    """Number of buckets (`relative_attention_num_buckets`); half per direction in bidirectional stacks."""
    farthest: PositiveInt = 128
    """The distance from which on all share a bucket (`relative_attention_max_distance`)."""


def bucket_of(ahead: Tensor, both_ways: bool, buckets: int, farthest: int) -> Tensor:
    """Bucket of each distance key - query; without `both_ways`, later keys share the first bucket."""
    later = torch.zeros_like(ahead)
    if both_ways:
        buckets //= 2
        later = (ahead > 0) * buckets
        distance = ahead.abs()
    else:
        distance = (-ahead).clamp(min=0)
    exact = buckets // 2
    # In float32, as T5 was trained: rounding decides at the edges of buckets.
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(farthest / exact)
    far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return later + torch.where(distance < exact, distance, far)


class T5Position(Position):
    """One table, shared by all layers that share the position."""

    options_type = T5Options
    options: T5Options
    relative = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.table = nn.Parameter(torch.empty(options.buckets, dims.heads))
        nn.init.normal_(self.table, std=dims.width**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Half of the buckets per direction are exact, and `farthest` must lie beyond them."""
        smallest = 2 if build_context.causal else 4
        if options.buckets % smallest:
            yield build_context.problem(
                f"{options.buckets} buckets cannot be shared out in {smallest} equal parts",
                "buckets",
                hint=f"take {-(-options.buckets // smallest) * smallest} buckets",
            )
        exact = options.buckets // smallest
        if options.farthest <= exact:
            yield build_context.problem(
                f"distances below {exact} have a bucket each, and everything from {options.farthest} on shares one",
                "farthest",
                hint=f"take farthest: {4 * exact} or fewer buckets",
            )

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """Bias of the scores: [B or 1, H, Q, K]."""
        ahead_BQK = k_at_BK[:, None, :] - q_at_BQ[:, :, None]
        bucket_BQK = bucket_of(ahead_BQK, not self.build_context.causal, self.options.buckets, self.options.farthest)
        return F.embedding(bucket_BQK, self.table).permute(0, 3, 1, 2)
