"""Attention whose state does not follow when a beam search chooses rows."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Cache, KVCache, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.cache_reorder"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["forgets-select"] = "forgets-select"
    heads: PositiveInt = 4


class Stubborn(KVCache):
    def reorder(self, rows: Tensor) -> None:
        super().reorder(torch.arange(rows.shape[0]).clamp(max=int(rows.max())))


class Stays(MultiHeadAttention):
    options_type = BrokenOptions

    def start(self) -> Cache:
        return Stubborn() if self.dims.memory is None else super().start()


@hookimpl
def kit_components():
    return [Stays]
