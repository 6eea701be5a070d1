"""Attention that gives one number less than it is given."""

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.shape"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["wrong-shape"] = "wrong-shape"
    heads: PositiveInt = 4


class Cuts(MultiHeadAttention):
    options_type = BrokenOptions

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        return super().project_output(out, x)[..., :-1]


@hookimpl
def kit_components():
    return [Cuts]
