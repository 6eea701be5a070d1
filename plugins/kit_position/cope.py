"""CoPE, contextual position encoding by gated counting of keys (Golovneva et al. 2024).

Shapes: B batch, H heads, Q queries, K keys, E head dimension, P positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from kit import AttentionContext, BuildContext, Dims, Options, Position, Problem


class CopeOptions(Options):
    """CoPE: the position of a key is the sum of gates from it up to the query; causal stacks only."""

    use: Literal["cope"] = "cope"
    positions: int = Field(default=64, ge=2)
    """Number of learned position vectors; larger counts share the last one."""


class CopePosition(Position):
    """Sums gates sigmoid(q · k) from the query back to the key and interpolates between position vectors."""

    options_type = CopeOptions
    options: CopeOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.table = nn.Parameter(torch.empty(options.positions, dims.head_dim))
        nn.init.normal_(self.table, std=dims.head_dim**-0.5)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The stack must be causal: gates are summed back from the query."""
        if not build_context.causal:
            yield build_context.problem(
                f"cope counts back from the query, and the {build_context.stack} looks to the right as well",
                hint="choose another position here",
            )

    def content_bias(self, q_BHQE: Tensor, k_BHKE: Tensor, context: AttentionContext) -> Tensor:
        """Score of each key's interpolated position [B, H, Q, K], with gates summed in float32 at least."""
        gates_BHQK = torch.sigmoid((q_BHQE * self.dims.head_dim**-0.5) @ k_BHKE.transpose(-1, -2))
        if context.attention_mask is not None:
            gates_BHQK = gates_BHQK.masked_fill(~context.attention_mask, 0.0)
        dtype = torch.promote_types(gates_BHQK.dtype, torch.float32)
        at_BHQK = gates_BHQK.to(dtype).flip(-1).cumsum(-1).flip(-1).clamp(max=self.options.positions - 1)
        by_position_BHQP = q_BHQE @ self.table.to(q_BHQE.dtype).t()
        below_BHQK = at_BHQK.detach().floor()
        fraction = (at_BHQK - below_BHQK).to(q_BHQE.dtype)
        below = by_position_BHQP.gather(-1, below_BHQK.long())
        above = by_position_BHQP.gather(-1, (below_BHQK.long() + 1).clamp(max=self.options.positions - 1))
        return below + (above - below) * fraction
