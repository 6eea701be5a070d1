"""Attention whose state remembers keys, and of values only the newest."""

from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Cache, KVCache, MultiHeadAttention, MultiHeadOptions, hookimpl

kit_api = 1
BREAKS = "attention.incremental_decoding"


class BrokenOptions(MultiHeadOptions):
    """Attention with a fault."""

    use: Literal["wrong-state"] = "wrong-state"
    heads: PositiveInt = 4


class Half(KVCache):
    def append(self, k_BGKE: Tensor, v_BGKE: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = super().append(k_BGKE, v_BGKE)
        old = values.shape[2] - v_BGKE.shape[2]
        return keys, torch.cat([torch.zeros_like(values[:, :, :old]), values[:, :, old:]], 2)


class Forgets(MultiHeadAttention):
    options_type = BrokenOptions

    def start(self) -> Cache:
        return Half() if self.dims.memory is None else super().start()


@hookimpl
def kit_components():
    return [Forgets]
