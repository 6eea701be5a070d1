"""Attention that knows the causal mask and padding, and drops every other mask."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.masked_keys"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["ignores-mask"] = "ignores-mask"
    heads: PositiveInt = 4


class Ignores(MultiHeadAttention):
    options_type = BrokenOptions

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        known = context.mask if context.mask is not None and context.mask.shape == "causal" else None
        return super().attention_weights(
            q_BHQE, k_BGKE, AttentionContext(context.queries, context.keys, known, context.position)
        )


@hookimpl
def kit_components():
    return [Ignores]
