"""Multi-head attention: projections, heads, KV cache and output, with a varlen fast path for plain softmax attention.

Shapes: B rows, N packed tokens, H heads, G key-value heads, Q queries, K keys, E head_dim of queries and keys,
F head_dim of values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from kit.contracts.attention import Attention
from kit.contracts.head_pruning import PrunedHeads, pruned_context, pruned_parameters, shard_heads
from kit.contracts.tensor_parallel import TensorParallelShard
from kit.errors import Problem
from kit.kernels.attention import (
    fuses_dropout,
    repeat_kv,
    supports_varlen,
    varlen_cross_attention,
    varlen_self_attention,
)
from kit.kernels.dropout import drop
from kit.plugin.component import BuildContext, Dims, Options
from kit.sequence.attention_context import AttentionContext
from kit.sequence.batch_layout import BatchLayout
from kit.sequence.cache import Cache, CrossAttentionKVCache, KVCache


class MultiHeadOptions(Options):
    """Options of every multi-head attention."""

    heads: PositiveInt = 8
    """Number of attention heads."""
    kv_heads: PositiveInt | None = None
    """Number of key-value heads that the heads share (grouped-query attention); left out, each head has its own."""
    head_dim: PositiveInt | None = None
    """Size of a query or key of one head; left out, the model's width over the heads."""
    value_head_dim: PositiveInt | None = None
    """Size of a value of one head; left out, that of a key."""
    value_lora_rank: PositiveInt | None = None
    """Low-rank value projection of this rank: V = X · V_down · V_up; left out, a single matrix."""
    bias: bool = True
    """Whether queries, keys and values have a bias."""
    output_bias: bool | None = None
    """Whether the output projection has a bias; left out, as `bias`."""
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    """Dropout probability of attention weights."""


class MultiHeadAttention(Attention):
    """Override `attention_weights` for other weights, or `attend` if outputs can be computed without them.

    A variant whose weights are a plain softmax of scaled dot products lets `attend` return `sdpa(...)`, and
    `varlen_attend` return `varlen_sdpa(...)`.
    """

    options: MultiHeadOptions
    per_head_parameters: ClassVar[tuple[str, ...]] = ()
    """Names of parameters that a variant adds whose first axis is its heads, which pruning and sharding then slice."""

    def __init_subclass__(cls) -> None:
        """Disables the varlen path of a variant that overrides a method which that path bypasses, but not the path."""
        super().__init_subclass__()
        for base in cls.__mro__:  # a mixin that is no attention may override it
            if "varlen_attend" in vars(base):
                break
            if not _BYPASSED_BY_VARLEN.isdisjoint(vars(base)):
                cls.varlen_attend = MultiHeadAttention.varlen_attend  # type: ignore[method-assign]
                break

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.heads, self.head_dim = self.head_shape(options, dims)
        self.kv_heads = options.kv_heads or self.heads
        self.pruned_heads: PrunedHeads | None = None
        """The heads that remain after pruning; None if none were pruned."""
        if (left := build_context.kept_heads.get(build_context.name)) is not None:
            self.pruned_heads = PrunedHeads(tuple(left), self.heads // self.kv_heads)
            self.heads, self.kv_heads = len(self.pruned_heads.heads), len(self.pruned_heads.kv_heads)
            self.register_forward_pre_hook(_prune_context)
        self.value_head_dim = options.value_head_dim or self.head_dim
        self.q_size, self.k_size = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.v_size = options.value_lora_rank or self.kv_heads * self.value_head_dim
        if dims.memory is None:
            self.query_key_value = nn.Linear(dims.width, self.q_size + self.k_size + self.v_size, options.bias)
        else:
            self.query = nn.Linear(dims.width, self.q_size, options.bias)
            self.key_value = nn.Linear(dims.memory, self.k_size + self.v_size, options.bias)
        if options.value_lora_rank is not None:
            self.value_up = nn.Linear(options.value_lora_rank, self.kv_heads * self.value_head_dim, bias=False)
        output_bias = options.bias if options.output_bias is None else options.output_bias
        self.output = nn.Linear(self.heads * self.value_head_dim, dims.width, output_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Xavier initialization, of each projection of a fused matrix separately."""
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
        """Returns the number of heads and the head_dim."""
        return options.heads, options.head_dim or max(1, dims.width // options.heads)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Heads must divide the width, and key-value heads the heads."""
        if options.head_dim is None and dims.width % options.heads:
            divisors = (number for number in range(1, dims.width + 1) if dims.width % number == 0)
            near = sorted(divisors, key=lambda number: abs(number - options.heads))
            yield build_context.problem(
                f"{options.heads} heads do not divide the width {dims.width}",
                "heads",
                hint=f"take {' or '.join(map(str, near[:2]))} heads, or name a head_dim",
            )
        if options.kv_heads is not None and options.heads % options.kv_heads:
            yield build_context.problem(
                f"{options.kv_heads} kv_heads do not divide {options.heads} heads",
                "kv_heads",
                hint="take a number of kv_heads that divides the number of heads",
            )
        left, heads = build_context.kept_heads.get(build_context.name), cls.head_shape(options, dims)[0]
        if left is not None and (len(set(left)) < len(left) or any(head >= heads for head in left)):
            yield build_context.problem(
                f"kept_heads of {build_context.name} are {list(left)}; wanted different ones of 0 to {heads - 1}"
            )

    @property
    def scale(self) -> float:
        """The factor of dot products."""
        return float(self.head_dim**-0.5)

    def transform_queries(self, q_BHQE: Tensor) -> Tensor:
        """Transforms queries before rotation, as a query norm does; the identity by default."""
        return q_BHQE

    def transform_keys(self, k_BGKE: Tensor) -> Tensor:
        """Transforms keys before rotation and caching, as a key norm does; the identity by default."""
        return k_BGKE

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Computes attention weights [B, H, Q, K]; a masked softmax of scaled dot products by default."""
        return context.masked_softmax(context.scores(q_BHQE, k_BGKE, self.scale))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Computes the outputs of heads [B, H, Q, F]; weights times values by default."""
        return self.weighted_sum(self.attention_weights(q_BHQE, k_BGKE, context), v_BGKF)

    def sdpa(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Computes the same by a fused kernel, for a plain softmax of scaled dot products."""
        dropout = self.options.dropout if self.training else 0.0
        if dropout > 0 and not fuses_dropout(q_BHQE):
            return self.weighted_sum(self.attention_weights(q_BHQE, k_BGKE, context), v_BGKF)
        return context.attend(q_BHQE, k_BGKE, v_BGKF, self.scale, dropout)

    def varlen_attend(self, x: Tensor, memory: Tensor | None, context: AttentionContext) -> Tensor | None:
        """Computes concatenated heads [N, H * F] without padding, where a variant can; None by default."""
        return None

    def varlen_sdpa(self, x: Tensor, memory: Tensor | None, context: AttentionContext) -> Tensor | None:
        """Varlen attention for a plain softmax of scaled dot products, without transformed queries or keys."""
        options = self.options
        cu_seqlens = context.cu_seqlens if supports_varlen(x, self.head_dim) else None
        plain = options.value_lora_rank is None and self.value_head_dim == self.head_dim
        even = self.pruned_heads is None or self.pruned_heads.is_even
        if cu_seqlens is None or not plain or not even or (options.dropout > 0 and self.training):
            return None
        is_self = memory is None or self.dims.memory is None
        if (is_self or context.is_causal) and not torch.equal(*cu_seqlens):
            return None
        config = cu_seqlens, self.heads, self.kv_heads, self.scale, context.is_causal
        if is_self:
            return varlen_self_attention(self.query_key_value(x), *config)
        return varlen_cross_attention(self.query(x), self.key_value(memory), *config)

    def weighted_sum(self, weights_BHQK: Tensor, v_BGKF: Tensor) -> Tensor:
        """Weighted sum of values [B, H, Q, F], with dropout of weights in training."""
        return drop(weights_BHQK, self.options.dropout, self.training) @ repeat_kv(v_BGKF, weights_BHQK)

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Projects to heads, attends, and projects the concatenated heads to the model's width."""
        if (
            context.observer is None
            and state is None
            and (packed := self.varlen_attend(x, memory, context)) is not None
        ):
            return self.project_output(packed, x)
        q, k, v = self.project(x, memory, context, state)
        observer = context.observer
        if observer is None:
            out_BHQF = self.attend(q, k, v, context)
        else:
            weights_BHQK = self.attention_weights(q, k, context)
            observer.weights(self.build_context, weights_BHQK, context)
            observer.values(self.build_context, v, context)
            out_BHQF = observer.heads(self.build_context, self.weighted_sum(weights_BHQK, v))
        return self.project_output(context.queries.from_heads(out_BHQF), x)

    def project(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Projects to padded, rotated queries [B, H, Q, E], keys [B, G, K, E] and values [B, G, K, F].

        Keys and values of a `KVCache` or `CrossAttentionKVCache` are included; other caches are left alone.
        """
        if self.dims.memory is None:
            return self._project_self(x, context, state)
        return self._project_memory(x, memory, context, state)

    def to_heads(self, projected: Tensor, side: BatchLayout, *pieces: int) -> tuple[Tensor, ...]:
        """Splits a fused projection into pieces of so many heads of size head_dim, and values: [B, H, L, E] each."""
        if self.options.value_lora_rank is None and self.value_head_dim == self.head_dim:
            return side.to_heads(projected, *pieces, self.kv_heads)
        others, v = projected.split((sum(pieces) * self.head_dim, self.v_size), -1)
        if self.options.value_lora_rank is not None:
            v = self.value_up(v)
        return *side.to_heads(others, *pieces), *side.to_heads(v, self.kv_heads)

    def project_output(self, out: Tensor, x: Tensor) -> Tensor:
        """Projects concatenated heads [..., H * F] to the model's width; x is what queries were projected from."""
        projected: Tensor = self.output(out)
        return projected

    def value_output_parameters(self) -> list[Tensor]:
        """The OV circuit: the value rows of the fused projection, and the output projection."""
        fused = self.query_key_value if self.dims.memory is None else self.key_value
        up = [self.value_up.weight] if hasattr(self, "value_up") else []
        return [fused.weight[-self.v_size :], *up, self.output.weight]

    def select_heads(self, heads: Sequence[int]) -> dict[str, Tensor] | None:
        """Slices the projections; None if a variant has parameters that are not in `per_head_parameters`."""
        return pruned_parameters(self, heads)

    def tensor_parallel_shard(self, rank: int, world_size: int) -> TensorParallelShard | None:
        """The shard with a rank's heads; None if heads cannot be split evenly."""
        return shard_heads(self, rank, world_size)

    def start(self) -> Cache:
        """Returns an empty KV cache, of self-attention or of cross-attention."""
        return KVCache() if self.dims.memory is None else CrossAttentionKVCache()

    def _project_self(self, x: Tensor, context: AttentionContext, state: Cache | None) -> tuple[Tensor, Tensor, Tensor]:
        q_BHQE, k_BGKE, v_BGKF = self.to_heads(self.query_key_value(x), context.queries, self.heads, self.kv_heads)
        q_BHQE = context.rotate_queries(self.transform_queries(q_BHQE))
        k_BGKE = context.rotate_keys(self.transform_keys(k_BGKE))
        if isinstance(state, KVCache):
            k_BGKE, v_BGKF = state.append(k_BGKE, v_BGKF)
        return q_BHQE, self._expand_uneven(k_BGKE), self._expand_uneven(v_BGKF)

    def _project_memory(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        q_BHQE = self.transform_queries(*context.queries.to_heads(self.query(x), self.heads))
        if isinstance(state, CrossAttentionKVCache) and state.projected is not None:
            k_BGKE, v_BGKF = state.projected
            return q_BHQE, self._expand_uneven(k_BGKE), self._expand_uneven(v_BGKF)
        assert memory is not None, f"{self.build_context.name} attends to a memory and was given none"
        k_BGKE, v_BGKF = self.to_heads(self.key_value(memory), context.keys, self.kv_heads)
        k_BGKE = self.transform_keys(k_BGKE)
        if isinstance(state, CrossAttentionKVCache):
            k_BGKE, v_BGKF = state.store(k_BGKE, v_BGKF)
        return q_BHQE, self._expand_uneven(k_BGKE), self._expand_uneven(v_BGKF)

    def _expand_uneven(self, x_BGKE: Tensor) -> Tensor:
        """Repeats keys or values per head if pruning left key-value heads with unequal numbers of heads."""
        if self.pruned_heads is None or self.pruned_heads.is_even:
            return x_BGKE
        return x_BGKE.index_select(1, torch.tensor(self.pruned_heads.kv_head_of, device=x_BGKE.device))


def _prune_context(part: Any, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Forward pre-hook: restricts the per-head bias of position parts to the heads that remain."""
    x, memory, context, *state = arguments
    return x, memory, pruned_context(context, part.pruned_heads.heads), *state


_BYPASSED_BY_VARLEN = frozenset(
    method.__name__
    for method in (
        MultiHeadAttention.forward,
        MultiHeadAttention.project,
        MultiHeadAttention.to_heads,
        MultiHeadAttention.transform_queries,
        MultiHeadAttention.transform_keys,
        MultiHeadAttention.attend,
        MultiHeadAttention.sdpa,
        MultiHeadAttention.attention_weights,
        MultiHeadAttention.weighted_sum,
    )
)
"""Names of the methods that `varlen_attend` replaces."""
