"""Disentangled attention, with content-to-position and position-to-content scores: DeBERTa (He et al. 2021).

Log buckets are those of DeBERTa-v2. Distances are indexed as in the authors' code, the same for both directions. Their
table is shared by all layers; here each layer has its own.
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, S relative positions, E head dimension, D model
width.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BuildContext,
    Capabilities,
    Dims,
    MultiHeadAttention,
    MultiHeadOptions,
    Problem,
    repeat_kv,
)
from kit_attention.relative import distance_range, distances, gather_by_distance


class DisentangledOptions(MultiHeadOptions):
    """DeBERTa attention: relative positions as learned vectors; it needs no position part."""

    use: Literal["disentangled"] = "disentangled"
    farthest: PositiveInt | None = None
    """The distance from which on all share a vector; left out, the model's length."""
    buckets: int | None = Field(default=None, ge=2)
    """Buckets per direction, exact for near distances and logarithmic for far ones; left out, one per distance."""
    shared_keys: bool = False
    """Whether relative positions are projected by the content's query and key matrices instead of their own."""

    def span(self, length: int) -> int:
        """Vectors per direction."""
        return self.buckets or self.farthest or length


class DisentangledAttention(MultiHeadAttention):
    """Scores are (q · k + q · k_rel + q_rel · k) / sqrt(3 · head_dim)."""

    options_type = DisentangledOptions
    options: DisentangledOptions
    # It encodes distances itself, and a distance between two sequences is not defined.
    capabilities = Capabilities(positions=frozenset(), reads_memory=False)

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
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
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Half of the buckets must lie below the farthest distance."""
        yield from super().check(options, dims, build_context)
        farthest = options.farthest or dims.length
        if options.buckets is not None and options.buckets // 2 >= farthest - 1:
            yield build_context.problem(
                f"{options.buckets} buckets hold {options.buckets // 2} near distances, and the farthest is {farthest}",
                "buckets",
                hint=f"leave buckets out, or take fewer than {2 * max(1, farthest - 1)}",
            )

    @property
    def scale(self) -> float:
        """1 / sqrt(3 · head_dim): three products are summed."""
        return float((3 * self.head_dim) ** -0.5)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of content-to-content, content-to-position and position-to-content scores: [B, H, Q, K]."""
        k_BHKE = repeat_kv(k_BGKE, q_BHQE)
        low, high = self._rows(context)
        index_BQK = self.index(distances(context)).clamp(low, high) - low
        query_HSE, key_HSE = self._distances(self.table[low : high + 1])
        scores_BHQK = q_BHQE @ k_BHKE.transpose(-1, -2)
        scores_BHQK = scores_BHQK + gather_by_distance(q_BHQE @ key_HSE.transpose(-1, -2), index_BQK)
        # Keys look up queries, so the index is transposed.
        to_content_BHKQ = gather_by_distance(k_BHKE @ query_HSE.transpose(-1, -2), index_BQK.transpose(1, 2))
        return context.masked_softmax((scores_BHQK + to_content_BHKQ.transpose(-1, -2)) * self.scale)

    def index(self, distance: Tensor) -> Tensor:
        """The row of the table for each relative position."""
        if self.options.buckets is not None:
            distance = log_bucket(distance, self.options.buckets, self.options.farthest or self.dims.length)
        return (distance + self.span).clamp(0, 2 * self.span - 1)

    def _rows(self, context: AttentionContext) -> tuple[int, int]:
        """The first and the last row of the table that this context can need."""
        low, high = distance_range(context)
        if self.options.buckets is not None:
            # A far distance may fall into any of the outer buckets, so these are taken all or not at all.
            near = self.options.buckets // 2
            low, high = (low if low >= -near else -self.span), (high if high <= near else self.span)
        last = 2 * self.span - 1
        return min(max(low + self.span, 0), last), min(max(high + self.span, 0), last)

    def _distances(self, table_SD: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys of relative positions, [H, S, E] each."""
        sizes = (self.q_size, self.k_size)
        if self.options.shared_keys:
            content, count = self.query_key_value, sum(sizes)
            bias = None if content.bias is None else content.bias[:count]
            projected = F.linear(table_SD, content.weight[:count], bias)
        else:
            projected = self.distance(table_SD)
        query_HSE, key_GSE = (
            piece.unflatten(-1, (-1, self.head_dim)).transpose(0, 1) for piece in projected.split(sizes, -1)
        )
        return query_HSE, repeat_kv(key_GSE[None], query_HSE[None])[0]


def log_bucket(distance: Tensor, buckets: int, farthest: int) -> Tensor:
    """Log buckets: distances up to half the buckets are exact, larger ones grow logarithmically to the farthest."""
    near = buckets // 2
    size = distance.abs().clamp(min=near).to(torch.float64)
    steps = torch.log(size / near) * ((near - 1) / math.log((farthest - 1) / near))
    # Rounding must not lift a whole number of steps to the next.
    far = (steps - 1e-6).ceil().to(distance.dtype) + near
    return torch.where(distance.abs() <= near, distance, far * distance.sign())
