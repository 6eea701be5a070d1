"""Attention in heads of packed texts as they lie: a way round padded rows, for variants that do what a kernel does."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from kit.contracts.attention import Attention
from kit.contracts.narrowing import Kept
from kit.native.texts import LANES, Heads, attend_within, attends
from kit.scope import Scope


class PackedHeads(Attention):
    """What `MultiHeadAttention` tries first."""

    heads: int
    groups: int
    key_width: int
    value_width: int
    kept: Kept | None
    query_key_value: nn.Linear
    query: nn.Linear
    key_value: nn.Linear
    options: Any
    way_round: ClassVar[frozenset[str]] = frozenset(
        {"forward", "project", "to_heads", "shape_queries", "shape_keys", "attend", "attend_fused", "weigh", "mix"}
    )
    """Methods that `attend_packed` stands for."""

    def __init_subclass__(cls) -> None:
        """A variant that changes what `attend_packed` stands for, and does not define it anew, has none."""
        super().__init_subclass__()
        for base in cls.__mro__:  # a change may come from a class that is no attention
            if "attend_packed" in vars(base):
                break
            if not cls.way_round.isdisjoint(vars(base)):
                cls.attend_packed = PackedHeads.attend_packed  # type: ignore[method-assign]
                break

    @property
    def scale(self) -> float:
        """What scores are multiplied by."""
        return float(self.key_width**-0.5)

    def attend_packed(self, x: Tensor, memory: Tensor | None, scope: Scope) -> Tensor | None:
        """What heads give, side by side, where that can be made of tokens as they lie; None by default."""
        return None

    def attend_packed_fused(self, x: Tensor, memory: Tensor | None, scope: Scope) -> Tensor | None:
        """The same for variants whose weights are a plain softmax of scaled dot products, queries and keys unshaped."""
        options, texts = self.options, scope.texts if attends(x) else None
        plain = options.value_rank is None and self.value_width == self.key_width and self.key_width % LANES == 0
        whole = self.kept is None or self.kept.is_even
        if texts is None or not plain or not whole or (options.dropout > 0 and self.training):
            return None
        own = memory is None or self.dims.memory is None
        if (own or scope.is_causal) and not torch.equal(*texts):
            return None
        heads = Heads(self.heads, self.groups, self.scale, scope.is_causal)
        if own:
            return attend_within(self.query_key_value(x), None, texts, heads)
        return attend_within(self.query(x), self.key_value(memory), texts, heads)
