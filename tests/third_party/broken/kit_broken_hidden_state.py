"""Attention that remembers the batch before, outside of any state."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, Cache, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "part.no_hidden_state"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["hidden-state"] = "hidden-state"
    heads: PositiveInt = 4


class Remembers(MultiHeadAttention):
    options_type = BrokenOptions
    passes = 0

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        self.passes += 1
        return super().forward(x, memory, context, state)


@hookimpl
def kit_components():
    return [Remembers]
