"""Attention that prefers the first column, wherever the text begins in its row."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.padding_invariance"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["counts-padding"] = "counts-padding"
    heads: PositiveInt = 4


class Columns(MultiHeadAttention):
    options_type = BrokenOptions

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        scores = context.scores(q_BHQE, k_BGKE, self.scale)
        first = torch.arange(scores.shape[-1], device=scores.device) == 0
        return context.masked_softmax(scores + first)


@hookimpl
def kit_components():
    return [Columns]
