"""An attention that has lost some of its heads: which are left, which keys they share, and what is left of its weights.

Shapes: H heads, G groups of keys, Q queries, K keys, E width of a query or key, F width of a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from kit.contracts.division import Cut, Division, in_order, kept

if TYPE_CHECKING:
    from kit.contracts.multi_head import MultiHeadAttention
    from kit.contracts.position import Position
    from kit.scope import Scope


@dataclass(frozen=True)
class Kept:
    """Which heads are left of how many, and which group of keys each looks at."""

    heads: tuple[int, ...]
    """By the numbers they had when there were all."""
    size: int
    """How many heads shared a group of keys."""

    @property
    def groups(self) -> tuple[int, ...]:
        """The groups that some head still looks at, by the numbers they had."""
        return tuple(sorted({head // self.size for head in self.heads}))

    @property
    def group_of(self) -> tuple[int, ...]:
        """For each head that is left, the place of its group among those that are left."""
        return tuple(self.groups.index(head // self.size) for head in self.heads)

    @property
    def is_even(self) -> bool:
        """Whether every group still has the same number of heads, so that keys can be repeated as ever."""
        share = len(self.heads) // max(1, len(self.groups))
        return self.group_of == tuple(head // share for head in range(len(self.heads))) if share else True


class KeptPosition:
    """A position part, as the heads that are left see it: each with its own bias."""

    def __init__(self, position: Position, heads: Sequence[int]) -> None:
        self.position = position
        self.heads = heads

    def __getattr__(self, name: str) -> Any:
        return getattr(self.position, name)

    def bias(self, q_at: Tensor, k_at: Tensor) -> Tensor | None:
        """[B or 1, H or 1, Q, K] of the heads that are left."""
        bias = self.position.bias(q_at, k_at)
        if bias is None or bias.shape[1] == 1:
            return bias
        return bias.index_select(1, torch.tensor(self.heads, device=bias.device))


def narrowed_scope(scope: Scope, heads: tuple[int, ...]) -> Scope:
    """The same scope for the heads that are left; made once for all layers that have kept the same."""
    if not scope.biased or scope.position is None:
        return scope
    found = scope.narrowed.get(heads)
    if found is None:
        position: Any = KeptPosition(scope.position, heads)
        found = type(scope)(scope.queries, scope.keys, scope.mask, position, scope.watcher)
        scope.narrowed[heads] = found
    return found


def narrowed_parameters(part: MultiHeadAttention, chosen: Sequence[int]) -> dict[str, Tensor] | None:
    """Its parameters with only these heads, counted among those it has now; None where it cannot be told how.

    A parameter that a variant adds has to be named in `by_head`, or nobody could know which part of it is whose.
    """
    return _cut(dict(part.named_parameters()), head_cuts(part, chosen))


def divided_heads(part: MultiHeadAttention, share: int, of: int) -> Division | None:
    """Some of its heads, with the keys that they look at; None where heads or keys cannot be shared out evenly.

    Values that are made in two steps have a first one that is the same for all heads.
    """
    if part.heads % of or part.groups % of or part.kept is not None or hasattr(part, "value_up"):
        return None
    own = in_order(share, of, part.heads)
    site = replace(part.site, kept={**part.site.kept, part.site.name: own})
    return Division(head_cuts(part, own), "output", lambda: type(part)(part.options, part.dims, site))


def head_cuts(part: MultiHeadAttention, chosen: Sequence[int]) -> dict[str, Cut]:
    """What belongs to these heads of each parameter whose places belong to heads."""
    now = part.kept or Kept(tuple(range(part.heads)), part.heads // part.groups)
    left = Kept(tuple(now.heads[head] for head in chosen), now.size)
    groups = [now.groups.index(group) for group in left.groups]
    q, k = _rows(chosen, part.key_width), _rows(groups, part.key_width)
    v = _rows(groups, part.value_width)
    low_rank = hasattr(part, "value_up")
    values = list(range(part.v_size)) if low_rank else v
    shift = [part.k_size + row for row in values]
    wanted: dict[str, Cut] = {"output.weight": (1, _rows(chosen, part.value_width))}
    if part.dims.memory is None:
        fused = [*q, *(part.q_size + row for row in k), *(part.q_size + row for row in shift)]
        wanted |= {"query_key_value.weight": (0, fused), "query_key_value.bias": (0, fused)}
    else:
        wanted |= {f"query.{name}": (0, q) for name in ("weight", "bias")}
        wanted |= {f"key_value.{name}": (0, [*k, *shift]) for name in ("weight", "bias")}
    if low_rank:
        wanted["value_up.weight"] = (0, v)
    wanted |= {name: (0, list(chosen)) for name in part.by_head}
    return wanted


def _cut(parameters: Mapping[str, Tensor], wanted: Mapping[str, Cut]) -> dict[str, Tensor] | None:
    whole = {"output.bias"}
    if any(name not in wanted and name not in whole for name in parameters):
        return None
    return {
        name: kept(parameter, *wanted[name]) if name in wanted else parameter.detach().clone()
        for name, parameter in parameters.items()
    }


def _rows(places: Sequence[int], width: int) -> list[int]:
    return [place * width + number for place in places for number in range(width)]
