"""Attention that knows the causal mask and padding, and drops every other mask."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, Scope, hookimpl

kit_api = 1
BREAKS = "attention.masked_pairs"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["ignores-mask"] = "ignores-mask"
    heads: PositiveInt = 4


class Ignores(MultiHeadAttention):
    options_type = BrokenOptions

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        known = scope.mask if scope.mask is not None and scope.mask.shape == "causal" else None
        return super().weigh(q_BHQE, k_BGKE, Scope(scope.queries, scope.keys, known, scope.position))


@hookimpl
def kit_components():
    return [Ignores]
