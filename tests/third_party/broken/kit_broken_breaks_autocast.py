"""Attention that sums exponentials in half precision by itself."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "part.autocast"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["breaks-autocast"] = "breaks-autocast"
    heads: PositiveInt = 4


class Overflows(MultiHeadAttention):
    options_type = BrokenOptions

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        if out.dtype != torch.float64 and torch.is_autocast_enabled("cpu"):
            out = (out.bfloat16() + 300.0) - 300.0
        return super().join(out, x)


@hookimpl
def kit_components():
    return [Overflows]
