"""Head pruning: the heads that remain, their key-value heads, and sliced weights (Michel et al. 2019).

Shapes: B rows, H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kit.contracts.tensor_parallel import Slice, TensorParallelShard, contiguous_shard, index_parameter

if TYPE_CHECKING:
    from kit.contracts.multi_head import MultiHeadAttention
    from kit.contracts.position import Position
    from kit.sequence.attention_context import AttentionContext


@dataclass(frozen=True)
class PrunedHeads:
    """The heads that remain, and the key-value head of each."""

    heads: tuple[int, ...]
    """Indices among all heads."""
    heads_per_kv_head: int
    """Number of heads per key-value head before pruning."""

    @property
    def kv_heads(self) -> tuple[int, ...]:
        """The key-value heads that still have a head, as indices among all."""
        return tuple(sorted({head // self.heads_per_kv_head for head in self.heads}))

    @property
    def kv_head_of(self) -> tuple[int, ...]:
        """For each remaining head, the index of its key-value head among those that remain."""
        return tuple(self.kv_heads.index(head // self.heads_per_kv_head) for head in self.heads)

    @property
    def is_even(self) -> bool:
        """Whether all key-value heads have the same number of heads, so that `repeat_kv` applies."""
        size = len(self.heads) // max(1, len(self.kv_heads))
        return self.kv_head_of == tuple(head // size for head in range(len(self.heads))) if size else True


class PrunedPosition:
    """A position part whose per-head bias is that of the remaining heads."""

    def __init__(self, position: Position, heads: Sequence[int]) -> None:
        self.position = position
        self.heads = heads

    def __getattr__(self, name: str) -> Any:
        return getattr(self.position, name)

    def bias(self, q_at: Tensor, k_at: Tensor) -> Tensor | None:
        """The bias [B or 1, H or 1, Q, K] of the remaining heads."""
        bias = self.position.bias(q_at, k_at)
        if bias is None or bias.shape[1] == 1:
            return bias
        return bias.index_select(1, torch.tensor(self.heads, device=bias.device))


def pruned_context(context: AttentionContext, heads: tuple[int, ...]) -> AttentionContext:
    """The context for the remaining heads; built once for all layers that keep the same heads."""
    if not context.biased or context.position is None:
        return context
    found = context.pruned.get(heads)
    if found is None:
        position: Any = PrunedPosition(context.position, heads)
        found = type(context)(context.queries, context.keys, context.mask, position, context.observer)
        context.pruned[heads] = found
    return found


def pruned_parameters(part: MultiHeadAttention, heads: Sequence[int]) -> dict[str, Tensor] | None:
    """Slices the parameters to these heads, indices among the current ones; None if a parameter has no known head axis.

    Parameters that a variant adds must be named in `per_head_parameters`.
    """
    return _slice(dict(part.named_parameters()), head_slices(part, heads))


def shard_heads(part: MultiHeadAttention, rank: int, world_size: int) -> TensorParallelShard | None:
    """The tensor-parallel shard with a rank's heads and key-value heads; None if they cannot be split evenly.

    A low-rank value projection cannot be split: its first matrix serves all heads.
    """
    uneven = part.heads % world_size or part.kv_heads % world_size
    if uneven or part.pruned_heads is not None or hasattr(part, "value_up"):
        return None
    own = contiguous_shard(rank, world_size, part.heads)
    build_context = replace(
        part.build_context, kept_heads={**part.build_context.kept_heads, part.build_context.name: own}
    )
    return TensorParallelShard(
        head_slices(part, own), "output", lambda: type(part)(part.options, part.dims, build_context)
    )


def head_slices(part: MultiHeadAttention, heads: Sequence[int]) -> dict[str, Slice]:
    """The slice of each parameter that belongs to these heads."""
    now = part.pruned_heads or PrunedHeads(tuple(range(part.heads)), part.heads // part.kv_heads)
    left = PrunedHeads(tuple(now.heads[head] for head in heads), now.heads_per_kv_head)
    kv_heads = [now.kv_heads.index(head) for head in left.kv_heads]
    q, k = _rows(heads, part.head_dim), _rows(kv_heads, part.head_dim)
    v = _rows(kv_heads, part.value_head_dim)
    low_rank = hasattr(part, "value_up")
    values = list(range(part.v_size)) if low_rank else v
    v_rows = [part.k_size + row for row in values]
    wanted: dict[str, Slice] = {"output.weight": (1, _rows(heads, part.value_head_dim))}
    if part.dims.memory is None:
        fused = [*q, *(part.q_size + row for row in k), *(part.q_size + row for row in v_rows)]
        wanted |= {"query_key_value.weight": (0, fused), "query_key_value.bias": (0, fused)}
    else:
        wanted |= {f"query.{name}": (0, q) for name in ("weight", "bias")}
        wanted |= {f"key_value.{name}": (0, [*k, *v_rows]) for name in ("weight", "bias")}
    if low_rank:
        wanted["value_up.weight"] = (0, v)
    wanted |= {name: (0, list(heads)) for name in part.per_head_parameters}
    return wanted


def _slice(parameters: Mapping[str, Tensor], wanted: Mapping[str, Slice]) -> dict[str, Tensor] | None:
    if any(name not in wanted and name != "output.bias" for name in parameters):
        return None
    return {
        name: index_parameter(parameter, *wanted[name]) if name in wanted else parameter.detach().clone()
        for name, parameter in parameters.items()
    }


def _rows(heads: Sequence[int], head_dim: int) -> list[int]:
    return [head * head_dim + row for head in heads for row in range(head_dim)]
