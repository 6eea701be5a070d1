"""Attention that keeps a table as a plain attribute."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Dims, MultiHeadAttention, MultiHeadOptions, Scope, Site, hookimpl

kit_api = 1
BREAKS = "part.registered"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["unregistered-buffer"] = "unregistered-buffer"
    heads: PositiveInt = 4


class Keeps(MultiHeadAttention):
    options_type = BrokenOptions

    def __init__(self, options: BrokenOptions, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.strength = torch.linspace(0.5, 1.0, self.heads)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        return super().weigh(q_BHQE * self.strength.to(q_BHQE)[:, None, None], k_BGKE, scope)


@hookimpl
def kit_components():
    return [Keeps]
