"""Attention that centres values over the whole text, what comes later included."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.causality"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["leaks-future"] = "leaks-future"
    heads: PositiveInt = 4


class Leaks(MultiHeadAttention):
    options_type = BrokenOptions

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        return super().attend(q_BHQE, k_BGKE, v_BGKF - 0.01 * v_BGKF.mean(2, keepdim=True), context)


@hookimpl
def kit_components():
    return [Leaks]
