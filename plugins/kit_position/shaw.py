"""A learned key for each distance, clipped: Self-Attention with Relative Position Representations (Shaw et al. 2018).

The paper's keys, shared by heads; its values for distances are left out, as in Music Transformer (Huang et al. 2018).
Shapes: B rows, H heads, Q queries, K keys, E width of a query or key, R = 2 · farthest + 1 distances.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import Dims, Options, Position, Scope, Site


class ShawOptions(Options):
    """A query's score for a key has a part that depends on the query and on how far away the key is."""

    use: Literal["shaw"] = "shaw"
    farthest: PositiveInt = 16
    """Everything at least so far apart, to either side, counts as the same distance."""


class ShawPosition(Position):
    """Adds query · vector of the distance / sqrt(width of a query)."""

    options_type = ShawOptions
    options: ShawOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        # Where later keys are hidden there is no distance ahead, and a vector for one would never be trained.
        self.ahead = 0 if site.causal else options.farthest
        self.table = nn.Parameter(torch.empty(options.farthest + 1 + self.ahead, dims.head_width))
        nn.init.normal_(self.table, std=dims.head_width**-0.5)

    def interact(self, q_BHQE: Tensor, k_BHKE: Tensor, scope: Scope) -> Tensor:
        """One product a distance, then each pair looks up its own."""
        by_distance_BHQR = (q_BHQE * self.dims.head_width**-0.5) @ self.table.to(q_BHQE.dtype).t()
        ahead_BQK = scope.keys.at[:, None, :] - scope.queries.at[:, :, None]
        which_BQK = ahead_BQK.clamp(-self.options.farthest, self.ahead) + self.options.farthest
        rows, heads, queries, _ = q_BHQE.shape
        found: Tensor = by_distance_BHQR.gather(-1, which_BQK[:, None].expand(rows, heads, queries, -1))
        return found
