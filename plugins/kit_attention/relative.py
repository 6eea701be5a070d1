"""Attention by content and by distance: Transformer-XL (Dai et al. 2019), section 3.3.

The recurrence of that paper is no part of it; a text is read as one segment.
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, S distances, E width of a query or key, D model's width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Abilities, Dims, MultiHeadAttention, MultiHeadOptions, Problem, Scope, Site, repeat_groups
from kit_attention.distances import distances, look_up, reach


class RelativeOptions(MultiHeadOptions):
    """Carries its own positions: waves of the distance between query and key."""

    use: Literal["relative"] = "relative"
    longest_wave: PositiveFloat = 10_000.0
    """The longest wavelength, over 2 pi."""


class RelativeAttention(MultiHeadAttention):
    """Scores are (q + u) · k + (q + v) · r, where r is projected from sines and then cosines of the distance."""

    options_type = RelativeOptions
    options: RelativeOptions
    # It knows distances itself, and two texts have no common count for a distance.
    abilities = Abilities(positions=frozenset(), reads_memory=False)
    frequencies: Tensor

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.distance = nn.Linear(dims.width, self.q_size, bias=False)
        self.content_bias = nn.Parameter(torch.empty(self.heads, 1, self.key_width))
        self.distance_bias = nn.Parameter(torch.empty(self.heads, 1, self.key_width))
        nn.init.xavier_uniform_(self.distance.weight)
        for bias in (self.content_bias, self.distance_bias):
            nn.init.normal_(bias, std=0.02)
        exponents = torch.arange(0, dims.width, 2, dtype=torch.float64) / dims.width
        self.register_buffer("frequencies", options.longest_wave**-exponents, persistent=False)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Waves come in pairs."""
        yield from super().check(options, dims, site)
        if dims.width % 2:
            yield site.problem(
                f"waves come in pairs, and the width {dims.width} is odd", hint=f"take model.width={dims.width + 1}"
            )

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of both kinds of score."""
        k_BHKE = repeat_groups(k_BGKE, q_BHQE)
        content_BHQK = (q_BHQE + self.content_bias) @ k_BHKE.transpose(-1, -2)
        low, high = reach(scope)
        by_distance_BHQS = self._by_distance(q_BHQE + self.distance_bias, low, high)
        # Pairs beyond the reach are hidden anyway.
        index_BQK = distances(scope).clamp(low, high) - low
        return scope.weigh((content_BHQK + look_up(by_distance_BHQS, index_BQK)) * self.scale)

    def waves(self, low: int, high: int, like: Tensor) -> Tensor:
        """[S, D]: the sines and then the cosines of each distance, computed in float64 so that far ones stay exact."""
        steps = torch.arange(low, high + 1, device=like.device, dtype=torch.float64)
        angles = steps[:, None] * self.frequencies.to(torch.float64)
        return torch.cat([angles.sin(), angles.cos()], -1).to(like.dtype)

    def _by_distance(self, q_BHQE: Tensor, low: int, high: int) -> Tensor:
        """What each query makes of each distance: [B, H, Q, S]. The product is taken in the cheaper order."""
        waves_SD = self.waves(low, high, q_BHQE)
        rows, _, queries, width = q_BHQE.shape
        span, model = waves_SD.shape
        if rows * queries * (width * model + span * model) < span * model * width + rows * queries * span * width:
            projection_HED = self.distance.weight.unflatten(0, (self.heads, width))
            by_wave_BHQD: Tensor = q_BHQE @ projection_HED
            return by_wave_BHQD @ waves_SD.T
        r_HSE: Tensor = self.distance(waves_SD).unflatten(-1, (self.heads, width)).transpose(0, 1)
        return q_BHQE @ r_HSE.transpose(-1, -2)
