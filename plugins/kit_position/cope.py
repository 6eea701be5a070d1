"""Positions that count what matters: Contextual Position Encoding (Golovneva et al. 2024).

Shapes: B rows, H heads, Q queries, K keys, E width of a query or key, P positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from kit import Dims, Options, Position, Problem, Scope, Site


class CopeOptions(Options):
    """The position of a key is how many keys from it up to the query the query cares about."""

    use: Literal["cope"] = "cope"
    positions: int = Field(default=64, ge=2)
    """How many positions have a vector; a key that counts further off has the last one."""


class CopePosition(Position):
    """Gates sigmoid(q · k) are counted from the query back to the key; between two positions, vectors are blended."""

    options_type = CopeOptions
    options: CopeOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.table = nn.Parameter(torch.empty(options.positions, dims.head_width))
        nn.init.normal_(self.table, std=dims.head_width**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """It counts back from the query, so a query must be the last that it sees."""
        if not site.causal:
            yield site.problem(
                f"cope counts back from the query, and the {site.stack} looks to the right as well",
                hint="choose another position here",
            )

    def interact(self, q_BHQE: Tensor, k_BHKE: Tensor, scope: Scope) -> Tensor:
        """Count in float32 at least: many small gates add up."""
        gates_BHQK = torch.sigmoid((q_BHQE * self.dims.head_width**-0.5) @ k_BHKE.transpose(-1, -2))
        if scope.allowed is not None:
            gates_BHQK = gates_BHQK.masked_fill(~scope.allowed, 0.0)
        dtype = torch.promote_types(gates_BHQK.dtype, torch.float32)
        at_BHQK = gates_BHQK.to(dtype).flip(-1).cumsum(-1).flip(-1).clamp(max=self.options.positions - 1)
        by_position_BHQP = q_BHQE @ self.table.to(q_BHQE.dtype).t()
        below_BHQK = at_BHQK.detach().floor()
        above_share = (at_BHQK - below_BHQK).to(q_BHQE.dtype)
        below = by_position_BHQP.gather(-1, below_BHQK.long())
        above = by_position_BHQP.gather(-1, (below_BHQK.long() + 1).clamp(max=self.options.positions - 1))
        return below + (above - below) * above_share
