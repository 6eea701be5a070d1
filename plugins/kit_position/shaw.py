"""Relative position representations of keys, clipped at a maximum distance (Shaw et al. 2018).

Keys as in the paper, shared by heads; relative values are left out, as in Music Transformer (Huang et al. 2018).
Shapes: B batch, H heads, Q queries, K keys, E head dimension, R = 2 · farthest + 1 relative positions.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Dims, Options, Position


class ShawOptions(Options):
    """Shaw's relative positions: scores gain q · r for a learned vector r of the clipped distance."""

    use: Literal["shaw"] = "shaw"
    farthest: PositiveInt = 16
    """Distances are clipped to this maximum in both directions."""


class ShawPosition(Position):
    """Adds q · r(distance) / sqrt(head_dim)."""

    options_type = ShawOptions
    options: ShawOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        # Causal stacks have no distance ahead, and vectors for it would never be trained.
        self.ahead = 0 if build_context.causal else options.farthest
        self.table = nn.Parameter(torch.empty(options.farthest + 1 + self.ahead, dims.head_dim))
        nn.init.normal_(self.table, std=dims.head_dim**-0.5)

    def content_bias(self, q_BHQE: Tensor, k_BHKE: Tensor, context: AttentionContext) -> Tensor:
        """Scores of all relative positions, gathered for each pair: [B, H, Q, K]."""
        by_distance_BHQR = (q_BHQE * self.dims.head_dim**-0.5) @ self.table.to(q_BHQE.dtype).t()
        ahead_BQK = context.keys.positions[:, None, :] - context.queries.positions[:, :, None]
        which_BQK = ahead_BQK.clamp(-self.options.farthest, self.ahead) + self.options.farthest
        rows, heads, queries, _ = q_BHQE.shape
        found: Tensor = by_distance_BHQR.gather(-1, which_BQK[:, None].expand(rows, heads, queries, -1))
        return found
