"""Relative positions in buckets, one learned number a bucket and head: T5 (Raffel et al. 2020), section 2.1.

Shapes: B rows, H heads, Q queries, K keys, N buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import Dims, Options, Position, Problem, Site


class T5Options(Options):
    """A bias that depends on distance: exact when near, coarser when far, one value beyond `farthest`."""

    use: Literal["t5"] = "t5"
    buckets: PositiveInt = 32
    """How many kinds of distance are told apart; half of them for each side where a stack looks both ways."""
    farthest: PositiveInt = 128
    """Everything at least so far apart is one bucket."""


def bucket_of(ahead: Tensor, both_ways: bool, buckets: int, farthest: int) -> Tensor:
    """The bucket of each distance key minus query; later keys share the first bucket unless both ways are looked."""
    later = torch.zeros_like(ahead)
    if both_ways:
        buckets //= 2
        later = (ahead > 0) * buckets
        distance = ahead.abs()
    else:
        distance = (-ahead).clamp(min=0)
    exact = buckets // 2
    # In float32, as T5 was trained: at the edge of a bucket the rounding decides.
    growth = torch.log(distance.clamp(min=1).float() / exact) / math.log(farthest / exact)
    far = (exact + (growth * (buckets - exact)).long()).clamp(max=buckets - 1)
    return later + torch.where(distance < exact, distance, far)


class T5Position(Position):
    """One table for all layers of a stack that share the position."""

    options_type = T5Options
    options: T5Options
    relative = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.table = nn.Parameter(torch.empty(options.buckets, dims.heads))
        nn.init.normal_(self.table, std=dims.width**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Half of the buckets of a side are exact, and the farthest lies beyond them."""
        smallest = 2 if site.causal else 4
        if options.buckets % smallest:
            yield site.problem(
                f"{options.buckets} buckets cannot be shared out in {smallest} equal parts",
                "buckets",
                hint=f"take {-(-options.buckets // smallest) * smallest} buckets",
            )
        exact = options.buckets // smallest
        if options.farthest <= exact:
            yield site.problem(
                f"distances below {exact} have a bucket each, and everything from {options.farthest} on shares one",
                "farthest",
                hint=f"take farthest: {4 * exact} or fewer buckets",
            )

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """[B or 1, H, Q, K]."""
        ahead_BQK = k_at_BK[:, None, :] - q_at_BQ[:, :, None]
        bucket_BQK = bucket_of(ahead_BQK, not self.site.causal, self.options.buckets, self.options.farthest)
        return F.embedding(bucket_BQK, self.table).permute(0, 3, 1, 2)
