"""Attention with a gate that was taken out of the pass and left in the class."""

from typing import Literal

from pydantic import PositiveInt
from torch import nn

from kit import BuildContext, Dims, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "part.gradients"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["unused-parameter"] = "unused-parameter"
    heads: PositiveInt = 4


class Wastes(MultiHeadAttention):
    options_type = BrokenOptions

    def __init__(self, options: BrokenOptions, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.gate = nn.Linear(dims.width, self.heads)


@hookimpl
def kit_components():
    return [Wastes]
