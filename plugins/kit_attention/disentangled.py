"""Content and distance that look at each other both ways: DeBERTa (He et al. 2021); its log buckets: DeBERTa-v2.

The index of a distance is that of the authors' code, the same for both directions. Their table is one for all layers;
here each layer has its own.
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, S distances, E width of a query or key, D model's width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import Abilities, Dims, MultiHeadAttention, MultiHeadOptions, Problem, Scope, Site, repeat_groups
from kit_attention.distances import distances, look_up, reach


class DisentangledOptions(MultiHeadOptions):
    """Carries its own positions: a trained vector for each distance."""

    use: Literal["disentangled"] = "disentangled"
    farthest: PositiveInt | None = None
    """The distance from which on all count as the same; left out, the model's length."""
    buckets: int | None = Field(default=None, ge=2)
    """How many buckets a side distances fall into, near ones singly and far ones by logarithm; left out, all singly."""
    shared_keys: bool = False
    """Whether distances are projected by the matrices of content queries and keys, in place of two of their own."""

    def span(self, length: int) -> int:
        """How many vectors each direction has."""
        return self.buckets or self.farthest or length


class DisentangledAttention(MultiHeadAttention):
    """Scores are (q · k + q · key of the distance + query of the distance · k) / sqrt(3 · width)."""

    options_type = DisentangledOptions
    options: DisentangledOptions
    # It knows distances itself, and two texts have no common count for a distance.
    abilities = Abilities(positions=frozenset(), reads_memory=False)

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.span: int = options.span(dims.length)
        self.table = nn.Parameter(torch.empty(2 * self.span, dims.width))
        nn.init.normal_(self.table, std=0.02)
        if not options.shared_keys:
            self.distance = nn.Linear(dims.width, self.q_size + self.k_size, options.bias)
            for piece in self.distance.weight.split((self.q_size, self.k_size)):
                nn.init.xavier_uniform_(piece)
            if self.distance.bias is not None:
                nn.init.zeros_(self.distance.bias)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Far distances need room beyond those that have a bucket each."""
        yield from super().check(options, dims, site)
        farthest = options.farthest or dims.length
        if options.buckets is not None and options.buckets // 2 >= farthest - 1:
            yield site.problem(
                f"{options.buckets} buckets hold {options.buckets // 2} near distances, and the farthest is {farthest}",
                "buckets",
                hint=f"leave buckets out, or take fewer than {2 * max(1, farthest - 1)}",
            )

    @property
    def scale(self) -> float:
        """Three products are summed, so three times the width."""
        return float((3 * self.key_width) ** -0.5)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of content to content, content to distance and distance to content."""
        k_BHKE = repeat_groups(k_BGKE, q_BHQE)
        low, high = self._rows(scope)
        index_BQK = self.index(distances(scope)).clamp(low, high) - low
        query_HSE, key_HSE = self._distances(self.table[low : high + 1])
        scores_BHQK = q_BHQE @ k_BHKE.transpose(-1, -2)
        scores_BHQK = scores_BHQK + look_up(q_BHQE @ key_HSE.transpose(-1, -2), index_BQK)
        # A key looks its queries up, so the table lies the other way round.
        to_content_BHKQ = look_up(k_BHKE @ query_HSE.transpose(-1, -2), index_BQK.transpose(1, 2))
        return scope.weigh((scores_BHQK + to_content_BHKQ.transpose(-1, -2)) * self.scale)

    def index(self, distance: Tensor) -> Tensor:
        """The row of the table for each distance."""
        if self.options.buckets is not None:
            distance = log_bucket(distance, self.options.buckets, self.options.farthest or self.dims.length)
        return (distance + self.span).clamp(0, 2 * self.span - 1)

    def _rows(self, scope: Scope) -> tuple[int, int]:
        """The first and the last row of the table that this scope can need."""
        low, high = reach(scope)
        if self.options.buckets is not None:
            # A far distance may fall into any of the outer buckets, so they are taken all or not at all.
            near = self.options.buckets // 2
            low, high = (low if low >= -near else -self.span), (high if high <= near else self.span)
        last = 2 * self.span - 1
        return min(max(low + self.span, 0), last), min(max(high + self.span, 0), last)

    def _distances(self, table_SD: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys of distances, [H, S, E] each."""
        sizes = (self.q_size, self.k_size)
        if self.options.shared_keys:
            content, count = self.query_key_value, sum(sizes)
            bias = None if content.bias is None else content.bias[:count]
            projected = F.linear(table_SD, content.weight[:count], bias)
        else:
            projected = self.distance(table_SD)
        query_HSE, key_GSE = (
            piece.unflatten(-1, (-1, self.key_width)).transpose(0, 1) for piece in projected.split(sizes, -1)
        )
        return query_HSE, repeat_groups(key_GSE[None], query_HSE[None])[0]


def log_bucket(distance: Tensor, buckets: int, farthest: int) -> Tensor:
    """Distances below half the buckets as they are; beyond, steps of the logarithm that end at the farthest."""
    near = buckets // 2
    size = distance.abs().clamp(min=near).to(torch.float64)
    steps = torch.log(size / near) * ((near - 1) / math.log((farthest - 1) / near))
    # Rounding must not lift a whole number of steps to the next.
    far = (steps - 1e-6).ceil().to(distance.dtype) + near
    return torch.where(distance.abs() <= near, distance, far * distance.sign())
