"""Attention that prefers the first column, wherever the text begins in its row."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, Scope, hookimpl

kit_api = 1
BREAKS = "attention.padding"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["counts-padding"] = "counts-padding"
    heads: PositiveInt = 4


class Columns(MultiHeadAttention):
    options_type = BrokenOptions

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        scores = scope.scores(q_BHQE, k_BGKE, self.scale)
        first = torch.arange(scores.shape[-1], device=scores.device) == 0
        return scope.weigh(scores + first)


@hookimpl
def kit_components():
    return [Columns]
