"""Attention that divides zero by zero for a query that may see nothing."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, Scope, hookimpl

kit_api = 1
BREAKS = "attention.blind_queries"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["nan-when-blind"] = "nan-when-blind"
    heads: PositiveInt = 4


class Blind(MultiHeadAttention):
    options_type = BrokenOptions

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        scores = scope.scores(q_BHQE, k_BGKE, self.scale)
        if scope.allowed is not None:
            scores = scores.masked_fill(~scope.allowed, float("-inf"))
        return scores.softmax(-1)


@hookimpl
def kit_components():
    return [Blind]
