"""Attention that drops weights by chance, also where nothing is trained."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import AttentionContext, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "part.reproducibility"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["not-deterministic"] = "not-deterministic"
    heads: PositiveInt = 4


class Dice(MultiHeadAttention):
    options_type = BrokenOptions

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        out = super().attend(q_BHQE, k_BGKE, v_BGKF, context)
        return out * (1 + 0.01 * torch.rand_like(out))


@hookimpl
def kit_components():
    return [Dice]
