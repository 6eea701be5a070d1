"""Attention that keeps a table as a plain attribute."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, BuildContext, Dims, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "part.registered_tensors"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["unregistered-buffer"] = "unregistered-buffer"
    heads: PositiveInt = 4


class Keeps(MultiHeadAttention):
    options_type = BrokenOptions

    def __init__(self, options: BrokenOptions, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.strength = torch.linspace(0.5, 1.0, self.heads)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        return super().attention_weights(q_BHQE * self.strength.to(q_BHQE)[:, None, None], k_BGKE, context)


@hookimpl
def kit_components():
    return [Keeps]
