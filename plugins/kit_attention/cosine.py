"""Cosine attention (QK-norm) with a learned scale: Query-Key Normalization for Transformers (Henry et al. 2020).

One scale per head: Swin Transformer V2 (Liu et al. 2022).
Shapes: B batch, H query heads, G key-value heads, Q queries, K keys, E and F dimensions of keys and values.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Dims, MultiHeadAttention, MultiHeadOptions


class CosineOptions(MultiHeadOptions):
    """Scores are cosines of queries and keys times a scale, which bounds the logits."""

    use: Literal["cosine"] = "cosine"
    scale: Literal["learned", "learned_per_head", "fixed"] = "learned"
    """Factor of the cosines: one learned number (Henry et al.), one per head (Swin V2), or a constant."""
    start: PositiveFloat | None = None
    """The scale, or its initial value; left out, log2(n² - n) for a model of maximum length n (Henry et al.)."""

    def first_scale(self, length: int) -> float:
        """The initial scale for a maximum length, which counts as at least 2."""
        longest = max(2, length)
        return self.start or math.log2(longest * longest - longest)


class CosineAttention(MultiHeadAttention):
    """L2-normalises queries and keys before any rotation and scales their dot products."""

    options_type = CosineOptions
    options: CosineOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        first = options.first_scale(dims.length)
        count = self.heads if options.scale == "learned_per_head" else 1
        self.sharpness = nn.Parameter(torch.full((count, 1, 1), first)) if options.scale != "fixed" else first

    @property
    def scale(self) -> float:
        """1: the queries carry the scale already."""
        return 1.0

    def transform_queries(self, q_BHQE: Tensor) -> Tensor:
        """Unit length, times the scale: [B, H, Q, E]."""
        return F.normalize(q_BHQE, dim=-1, eps=1e-6) * self.sharpness

    def transform_keys(self, k_BGKE: Tensor) -> Tensor:
        """Unit length: [B, G, K, E]."""
        return F.normalize(k_BGKE, dim=-1, eps=1e-6)

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Scaled dot-product attention by a fused kernel: [B, H, Q, F]."""
        return self.sdpa(q_BHQE, k_BGKE, v_BGKF, context)
