"""Relative attention with sinusoidal distances: Transformer-XL (Dai et al. 2019), section 3.3.

The segment recurrence of that paper is left out. Distances between queries and keys serve other variants too.
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, S distances, E head dimension, D model width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
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


class RelativeOptions(MultiHeadOptions):
    """Transformer-XL attention: sinusoids of the distance; it needs no position part."""

    use: Literal["relative"] = "relative"
    longest_wave: PositiveFloat = 10_000.0
    """Base of the sinusoids: the longest wavelength over 2 pi."""


class RelativeAttention(MultiHeadAttention):
    """Scores are (q + u) · k + (q + v) · r, where r is a projection of sinusoids of the distance."""

    options_type = RelativeOptions
    options: RelativeOptions
    # It encodes distances itself, and a distance between two sequences is not defined.
    capabilities = Capabilities(positions=frozenset(), reads_memory=False)
    frequencies: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.distance = nn.Linear(dims.width, self.q_size, bias=False)
        self.content_bias = nn.Parameter(torch.empty(self.heads, 1, self.head_dim))
        self.distance_bias = nn.Parameter(torch.empty(self.heads, 1, self.head_dim))
        nn.init.xavier_uniform_(self.distance.weight)
        for bias in (self.content_bias, self.distance_bias):
            nn.init.normal_(bias, std=0.02)
        exponents = torch.arange(0, dims.width, 2, dtype=torch.float64) / dims.width
        self.register_buffer("frequencies", options.longest_wave**-exponents, persistent=False)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Sines and cosines come in pairs, so the width must be even."""
        yield from super().check(options, dims, build_context)
        if dims.width % 2:
            yield build_context.problem(
                f"waves come in pairs, and the width {dims.width} is odd", hint=f"take model.width={dims.width + 1}"
            )

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of the sum of content scores and distance scores: [B, H, Q, K]."""
        k_BHKE = repeat_kv(k_BGKE, q_BHQE)
        content_BHQK = (q_BHQE + self.content_bias) @ k_BHKE.transpose(-1, -2)
        low, high = distance_range(context)
        by_distance_BHQS = self._by_distance(q_BHQE + self.distance_bias, low, high)
        # Pairs beyond this range are masked anyway.
        index_BQK = distances(context).clamp(low, high) - low
        return context.masked_softmax((content_BHQK + gather_by_distance(by_distance_BHQS, index_BQK)) * self.scale)

    def waves(self, low: int, high: int, like: Tensor) -> Tensor:
        """Sines, then cosines, of each distance, computed in float64 for precision: [S, D]."""
        steps = torch.arange(low, high + 1, device=like.device, dtype=torch.float64)
        angles = steps[:, None] * self.frequencies.to(torch.float64)
        return torch.cat([angles.sin(), angles.cos()], -1).to(like.dtype)

    def _by_distance(self, q_BHQE: Tensor, low: int, high: int) -> Tensor:
        """Score of each query for each distance, multiplied in the cheaper order: [B, H, Q, S]."""
        waves_SD = self.waves(low, high, q_BHQE)
        rows, _, queries, width = q_BHQE.shape
        span, model = waves_SD.shape
        if rows * queries * (width * model + span * model) < span * model * width + rows * queries * span * width:
            projection_HED = self.distance.weight.unflatten(0, (self.heads, width))
            by_wave_BHQD: Tensor = q_BHQE @ projection_HED
            return by_wave_BHQD @ waves_SD.T
        r_HSE: Tensor = self.distance(waves_SD).unflatten(-1, (self.heads, width)).transpose(0, 1)
        return q_BHQE @ r_HSE.transpose(-1, -2)


def distances(context: AttentionContext) -> Tensor:
    """Position of the query minus that of the key, negative for later keys: [B or 1, Q, K]."""
    return context.queries.positions[:, :, None] - context.keys.positions[:, None, :]


def distance_range(context: AttentionContext) -> tuple[int, int]:
    """The lowest and the highest distance that a query can see in this context."""
    if "position" in context.keys.features:
        # A batch that gives its own positions may give any.
        found = distances(context)
        return int(found.min()), int(found.max())
    causal = context.mask is not None and context.mask.hides_future
    return (0 if causal else 1 - context.keys.length), context.keys.length - 1


def gather_by_distance(table_BHQS: Tensor, index_BQK: Tensor) -> Tensor:
    """Gathers, for each key, the score of its distance: [B, H, Q, K]."""
    rows, heads = table_BHQS.shape[:2]
    return table_BHQS.gather(-1, index_BQK[:, None].expand(rows, heads, -1, -1))
