"""Attention of quadratic cost that says it is linear."""

from typing import Literal

from pydantic import PositiveInt

from kit import Capabilities, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.cost"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["lies-about-cost"] = "lies-about-cost"
    heads: PositiveInt = 4


class Boasts(MultiHeadAttention):
    options_type = BrokenOptions
    capabilities = Capabilities(cost="linear")


@hookimpl
def kit_components():
    return [Boasts]
