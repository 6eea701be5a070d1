"""Attention that divides zero by zero for a query that may see nothing."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.fully_masked_queries"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["nan-when-blind"] = "nan-when-blind"
    heads: PositiveInt = 4


class Blind(MultiHeadAttention):
    options_type = BrokenOptions

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        scores = context.scores(q_BHQE, k_BGKE, self.scale)
        if context.attention_mask is not None:
            scores = scores.masked_fill(~context.attention_mask, float("-inf"))
        return scores.softmax(-1)


@hookimpl
def kit_components():
    return [Blind]
