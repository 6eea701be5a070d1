"""Attention in heads: projections, rotation, the cache, watching and output; a variant overrides one method.

Attention Is All You Need (Vaswani et al. 2017), section 3.2; grouped keys and values: GQA (Ainslie et al. 2023).
Shapes: B rows, Q queries, K keys, H heads, G groups of keys, E width of a query or key, F width of a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit.component import Dims, Options, Site
from kit.contracts.division import Division
from kit.contracts.narrowing import Kept, divided_heads, narrowed_parameters, narrowed_scope
from kit.contracts.packed_heads import PackedHeads
from kit.dropout import drop
from kit.errors import Problem
from kit.groups import repeat_groups
from kit.layout import Layout
from kit.scope import Scope
from kit.state import KeyValueState, MemoryState, State


class MultiHeadOptions(Options):
    """What all attentions in heads have in common."""

    heads: PositiveInt = 8
    """How many heads look at the text side by side."""
    groups: PositiveInt | None = None
    """How many sets of keys and values the heads share; left out, each head has its own."""
    key_width: PositiveInt | None = None
    """Width of one query or key; left out, the model's width over the heads."""
    value_width: PositiveInt | None = None
    """Width of one value; left out, that of a key."""
    value_rank: PositiveInt | None = None
    """Makes values in two steps, down to this many numbers and up again: V = X · V_down · V_up."""
    bias: bool = True
    """Whether queries, keys and values have a bias."""
    output_bias: bool | None = None
    """Whether the output has a bias; left out, as `bias`."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The share of weights dropped in training."""


class MultiHeadAttention(PackedHeads):
    """Override `weigh` for other weights, or `attend` where there is a faster way than weights times values."""

    options: MultiHeadOptions
    by_head: ClassVar[tuple[str, ...]] = ()
    """Parameters that a variant adds whose first axis is its heads, so that it can be had with fewer of them."""

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.heads, self.key_width = self.head_shape(options, dims)
        self.groups = options.groups or self.heads
        self.kept: Kept | None = None
        """Which heads are left, where some were taken out."""
        if (left := site.kept.get(site.name)) is not None:
            self.kept = Kept(tuple(left), self.heads // self.groups)
            self.heads, self.groups = len(self.kept.heads), len(self.kept.groups)
            self.register_forward_pre_hook(_narrow)
        self.value_width = options.value_width or self.key_width
        self.q_size, self.k_size = self.heads * self.key_width, self.groups * self.key_width
        self.v_size = options.value_rank or self.groups * self.value_width
        if dims.memory is None:
            self.query_key_value = nn.Linear(dims.width, self.q_size + self.k_size + self.v_size, options.bias)
        else:
            self.query = nn.Linear(dims.width, self.q_size, options.bias)
            self.key_value = nn.Linear(dims.memory, self.k_size + self.v_size, options.bias)
        if options.value_rank is not None:
            self.value_up = nn.Linear(options.value_rank, self.groups * self.value_width, bias=False)
        output_bias = options.bias if options.output_bias is None else options.output_bias
        self.output = nn.Linear(self.heads * self.value_width, dims.width, output_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier, each projection by itself although they lie in one matrix."""
        own = self.query_key_value if self.dims.memory is None else self.key_value
        pieces = [self.k_size, self.v_size]
        if self.dims.memory is None:
            pieces.insert(0, self.q_size)
        else:
            nn.init.xavier_uniform_(self.query.weight)
        for piece in own.weight.split(pieces):
            nn.init.xavier_uniform_(piece)
        nn.init.xavier_uniform_(self.output.weight)
        for module in self.children():
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    @classmethod
    def head_shape(cls, options: Any, dims: Dims) -> tuple[int, int]:
        """Heads, and the width of a query."""
        return options.heads, options.key_width or max(1, dims.width // options.heads)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Heads must divide the width, and groups the heads."""
        if options.key_width is None and dims.width % options.heads:
            divisors = (number for number in range(1, dims.width + 1) if dims.width % number == 0)
            near = sorted(divisors, key=lambda number: abs(number - options.heads))
            yield site.problem(
                f"{options.heads} heads do not divide the width {dims.width}",
                "heads",
                hint=f"take {' or '.join(map(str, near[:2]))} heads, or name a key_width",
            )
        if options.groups is not None and options.heads % options.groups:
            yield site.problem(
                f"{options.groups} groups do not divide {options.heads} heads",
                "groups",
                hint="take a number of groups that divides the number of heads",
            )
        left, heads = site.kept.get(site.name), cls.head_shape(options, dims)[0]
        if left is not None and (len(set(left)) < len(left) or any(head >= heads for head in left)):
            yield site.problem(f"kept_heads of {site.name} are {list(left)}; wanted different ones of 0 to {heads - 1}")

    def shape_queries(self, q_BHQE: Tensor) -> Tensor:
        """What becomes of queries before their positions are turned in, such as a norm; nothing by default."""
        return q_BHQE

    def shape_keys(self, k_BGKE: Tensor) -> Tensor:
        """What becomes of keys before their positions are turned in and they are remembered; nothing by default."""
        return k_BGKE

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """How much each query takes of each key: [B, H, Q, K]. Softmax of scaled dot products by default."""
        return scope.weigh(scope.scores(q_BHQE, k_BGKE, self.scale))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """What each head gives: [B, H, Q, F]. Weights times values by default."""
        return self.mix(self.weigh(q_BHQE, k_BGKE, scope), v_BGKF)

    def attend_fused(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """The same by torch's fused kernel, for variants whose weights are a plain softmax of scaled dot products."""
        dropout = self.options.dropout if self.training else 0.0
        if dropout > 0 and q_BHQE.device.type == "cpu":
            # Dropping weights leaves the fast path on a CPU anyway.
            return self.mix(self.weigh(q_BHQE, k_BGKE, scope), v_BGKF)
        return scope.attend(q_BHQE, k_BGKE, v_BGKF, self.scale, dropout)

    def mix(self, weights_BHQK: Tensor, v_BGKF: Tensor) -> Tensor:
        """Values by weight, with dropout of weights in training: [B, H, Q, F]."""
        return drop(weights_BHQK, self.options.dropout, self.training) @ repeat_groups(v_BGKF, weights_BHQK)

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Project, attend in heads, join."""
        if scope.watcher is None and state is None and (packed := self.attend_packed(x, memory, scope)) is not None:
            return self.join(packed, x)
        q, k, v = self.project(x, memory, scope, state)
        watcher = scope.watcher
        if watcher is None:
            out_BHQF = self.attend(q, k, v, scope)
        else:
            weights_BHQK = self.weigh(q, k, scope)
            watcher.weights(self.site, weights_BHQK, scope)
            watcher.values(self.site, v, scope)
            out_BHQF = watcher.heads(self.site, self.mix(weights_BHQK, v))
        return self.join(scope.queries.from_heads(out_BHQF), x)

    def project(
        self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries [B, H, Q, E], keys [B, G, K, E] and values [B, G, K, F], in padded rows, positions turned in.

        Keys and values that a `KeyValueState` or `MemoryState` remembers are included; other states are left alone.
        """
        if self.dims.memory is None:
            return self._project_self(x, scope, state)
        return self._project_memory(x, memory, scope, state)

    def to_heads(self, projected: Tensor, side: Layout, *pieces: int) -> tuple[Tensor, ...]:
        """What a fused matrix made, as heads: pieces of so many heads as wide as a key, and the values."""
        if self.options.value_rank is None and self.value_width == self.key_width:
            # One trip to padded rows for all.
            return side.to_heads(projected, *pieces, self.groups)
        others, v = projected.split((sum(pieces) * self.key_width, self.v_size), -1)
        if self.options.value_rank is not None:
            v = self.value_up(v)
        return *side.to_heads(others, *pieces), *side.to_heads(v, self.groups)

    def join(self, out: Tensor, x: Tensor) -> Tensor:
        """Bring what the heads gave, side by side [..., H * F], to the model's width; queries were made from x."""
        joined: Tensor = self.output(out)
        return joined

    def value_path(self) -> list[Tensor]:
        """The part of the fused matrix that makes values, and the output."""
        fused = self.query_key_value if self.dims.memory is None else self.key_value
        up = [self.value_up.weight] if hasattr(self, "value_up") else []
        return [fused.weight[-self.v_size :], *up, self.output.weight]

    def with_heads(self, chosen: Sequence[int]) -> dict[str, Tensor] | None:
        """Cut out of the projections; None where a variant has parameters that it does not name in `by_head`."""
        return narrowed_parameters(self, chosen)

    def divided(self, share: int, of: int) -> Division | None:
        """Some of the heads; None where a variant has parameters that it does not name in `by_head`."""
        return divided_heads(self, share, of)

    def start(self) -> State:
        """Keys and values of what was read, or of the memory."""
        return KeyValueState() if self.dims.memory is None else MemoryState()

    def _project_self(self, x: Tensor, scope: Scope, state: State | None) -> tuple[Tensor, Tensor, Tensor]:
        q_BHQE, k_BGKE, v_BGKF = self.to_heads(self.query_key_value(x), scope.queries, self.heads, self.groups)
        q_BHQE = scope.rotate_queries(self.shape_queries(q_BHQE))
        k_BGKE = scope.rotate_keys(self.shape_keys(k_BGKE))
        if isinstance(state, KeyValueState):
            k_BGKE, v_BGKF = state.append(k_BGKE, v_BGKF)
        return q_BHQE, self._shared(k_BGKE), self._shared(v_BGKF)

    def _project_memory(
        self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q_BHQE = self.shape_queries(*scope.queries.to_heads(self.query(x), self.heads))
        if isinstance(state, MemoryState) and state.projected is not None:
            k_BGKE, v_BGKF = state.projected
            return q_BHQE, self._shared(k_BGKE), self._shared(v_BGKF)
        assert memory is not None, f"{self.site.name} attends to a memory and was given none"
        k_BGKE, v_BGKF = self.to_heads(self.key_value(memory), scope.keys, self.groups)
        k_BGKE = self.shape_keys(k_BGKE)
        if isinstance(state, MemoryState):
            k_BGKE, v_BGKF = state.keep(k_BGKE, v_BGKF)
        return q_BHQE, self._shared(k_BGKE), self._shared(v_BGKF)

    def _shared(self, x_BGKE: Tensor) -> Tensor:
        """Keys or values for each head, where groups have lost different numbers of heads; else as they are."""
        if self.kept is None or self.kept.is_even:
            return x_BGKE
        return x_BGKE.index_select(1, torch.tensor(self.kept.group_of, device=x_BGKE.device))


def _narrow(part: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
    """What position parts say of each head is for the heads that are left."""
    x, memory, scope, *state = given
    return x, memory, narrowed_scope(scope, part.kept.heads), *state
