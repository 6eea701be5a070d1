"""Cosine attention: Query-Key Normalization for Transformers (Henry et al. 2020).

One scale for each head: Swin Transformer V2 (Liu et al. 2022).
Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a query or key, F width of a value.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, MultiHeadAttention, MultiHeadOptions, Scope, Site


class CosineOptions(MultiHeadOptions):
    """Scores are cosines times a scale, so that no score can run away."""

    use: Literal["cosine"] = "cosine"
    scale: Literal["learned", "learned_per_head", "fixed"] = "learned"
    """What cosines are multiplied by: one trained number (Henry et al.), one a head (Swin V2), or a constant."""
    start: PositiveFloat | None = None
    """The scale, or what it is before training; left out, log2(n² - n) for a model made for n tokens (Henry et al.)."""

    def first_scale(self, length: int) -> float:
        """The scale before training; a model for one token has nothing to choose from, so it counts as two."""
        longest = max(2, length)
        return self.start or math.log2(longest * longest - longest)


class CosineAttention(MultiHeadAttention):
    """Queries and keys are brought to length one before any rotation, and scores are scaled by one number."""

    options_type = CosineOptions
    options: CosineOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        first = options.first_scale(dims.length)
        count = self.heads if options.scale == "learned_per_head" else 1
        self.sharpness = nn.Parameter(torch.full((count, 1, 1), first)) if options.scale != "fixed" else first

    @property
    def scale(self) -> float:
        """Nothing is left to scale: the queries carry it."""
        return 1.0

    def shape_queries(self, q_BHQE: Tensor) -> Tensor:
        """Length one, times the scale."""
        return F.normalize(q_BHQE, dim=-1, eps=1e-6) * self.sharpness

    def shape_keys(self, k_BGKE: Tensor) -> Tensor:
        """Length one."""
        return F.normalize(k_BGKE, dim=-1, eps=1e-6)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """By torch's fused kernel."""
        return self.attend_fused(q_BHQE, k_BGKE, v_BGKF, scope)
