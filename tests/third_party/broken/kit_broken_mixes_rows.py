"""Attention that lets the rows of a batch see each other."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.batch_invariance"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["mixes-rows"] = "mixes-rows"
    heads: PositiveInt = 4


class Mixes(MultiHeadAttention):
    options_type = BrokenOptions

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        return super().attend(q_BHQE, k_BGKE, v_BGKF + 0.1 * v_BGKF.mean(0, keepdim=True), context)


@hookimpl
def kit_components():
    return [Mixes]
