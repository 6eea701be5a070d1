"""Sliding-window attention with global tokens: Longformer (Beltagy et al. 2020), section 3.1.

Shapes: B batch, L tokens, N blocks, C queries per block, S keys visible to a block, H query heads, G key-value heads,
E and F dimensions of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    AttentionContext,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    Either,
    Mask,
    MultiHeadOptions,
    NoCache,
    Problem,
)
from kit_attention.query_blocks import QueryBlocks, block_size
from kit_attention.sparse import GlobalTokens, Heads, LocalWindow, PrecomputedMask, SparseAttention, intersect


class GlobalWindowOptions(MultiHeadOptions):
    """Longformer attention: a symmetric window, and leading tokens that see and are seen by all; encoders only."""

    use: Literal["global_window"] = "global_window"
    size: PositiveInt = 128
    """Keys on each side that a query sees, its own included in both; Longformer's window of w is w / 2 + 1."""
    global_tokens: PositiveInt = 1
    """Leading tokens that see and are seen by the whole sequence."""
    separate: bool = True
    """Whether global queries, and the keys and values that they attend to, have their own projections (the paper)."""


class GlobalWindowAttention(SparseAttention):
    """Scaled dot-product attention within a window, plus global attention of and to the leading tokens."""

    options_type = GlobalWindowOptions
    options: GlobalWindowOptions
    capabilities = Capabilities(reads_memory=False, incremental=False, cost="linear")

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        if options.separate:
            own = self.query_key_value
            self.global_query_key_value = nn.Linear(own.in_features, own.out_features, options.bias)
            # Both start equal, as in the paper.
            self.global_query_key_value.load_state_dict(own.state_dict())

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The window and the global tokens must fit into the longest sequence."""
        yield from super().check(options, dims, build_context)
        for name, value in (("size", options.size), ("global_tokens", options.global_tokens)):
            if value > dims.length:
                yield build_context.problem(
                    f"{name} is {value}, and the longest sequence has {dims.length} tokens",
                    name,
                    hint=f"take at most {dims.length}",
                )

    def start(self) -> Cache:
        """No cache: it does not decode incrementally."""
        return NoCache()

    def value_output_parameters(self) -> list[Tensor]:
        """The global value projection too."""
        own = [self.global_query_key_value.weight[-self.v_size :]] if self.options.separate else []
        return [*super().value_output_parameters(), *own]

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Window attention of all tokens, global attention of the leading ones, and the output projection: like x."""
        if not self.options.separate:
            return super().forward(x, memory, context, state)
        local = self.project(x, memory, context, None)
        whole = self._project_globals(x, context)
        if context.observer is None:
            out_BHLF = self.with_globals(local, whole, self.options.global_tokens, context)
        else:
            first_BHL1 = (context.queries.token_index < self.options.global_tokens)[:, None, :, None]
            weights = (
                self.attention_weights(local[0], local[1], context),
                super().attention_weights(whole[0], whole[1], context),
            )
            context.observer.weights(self.build_context, torch.where(first_BHL1, weights[1], weights[0]), context)
            mixed = torch.where(
                first_BHL1, self.weighted_sum(weights[1], whole[2]), self.weighted_sum(weights[0], local[2])
            )
            out_BHLF = context.observer.heads(self.build_context, mixed)
        return self.project_output(context.queries.from_heads(out_BHLF), x)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of scaled dot products over the pattern, computed densely: [B, H, Q, K]."""
        return super().attention_weights(
            q_BHQE, k_BGKE, AttentionContext(context.queries, context.keys, self._mask(context), context.position)
        )

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Block by block, in time linear in the length: [B, H, Q, F]."""
        heads = q_BHQE, k_BGKE, v_BGKF
        return self.with_globals(heads, heads, self.options.global_tokens, context)

    def _project_globals(self, x: Tensor, context: AttentionContext) -> tuple[Tensor, Tensor, Tensor]:
        projected = self.global_query_key_value(x)
        q_BHLE, k_BGLE, v_BGLF = self.to_heads(projected, context.queries, self.heads, self.kv_heads)
        return (
            context.rotate_queries(self.transform_queries(q_BHLE)),
            context.rotate_keys(self.transform_keys(k_BGLE)),
            v_BGLF,
        )

    def attend_in_blocks(self, heads: Heads, count: int, context: AttentionContext) -> Tensor:
        """Attention of each block to the global tokens, itself and its neighbours."""
        q_BHLE, k_BGLE, v_BGLF = heads
        size = block_size(self.options.size)
        reach = -(-(self.options.size - 1) // size)
        if context.keys.length <= 2 * size:
            dense = AttentionContext(context.queries, context.keys, self._mask(context), context.position)
            return self.fused_sdpa(q_BHLE, k_BGLE, v_BGLF, dense)
        blocks = QueryBlocks(context.keys, size)

        def pick(x_BLX: Tensor) -> Tensor:
            first_BNSX = x_BLX[:, None, :count].expand(-1, blocks.count, *(-1,) * (x_BLX.dim() - 1))
            return torch.cat([first_BNSX, blocks.around(x_BLX, reach, reach)], 2)

        order_BNS = blocks.around(blocks.fill(context.keys.token_index.expand(context.keys.rows, -1)), reach, reach)
        # A global token that is also a neighbour must not count twice.
        again_BNS = order_BNS < count
        shown_BNS = torch.cat([again_BNS.new_ones(*again_BNS.shape[:2], count), ~again_BNS], 2)
        mask = self._mask(context)
        if context.mask is None and not context.biased:
            near_1CS = blocks.pattern(LocalWindow(self.options.size), reach, reach).allowed_BQK
            mask = PrecomputedMask(torch.cat([near_1CS.new_ones(1, size, count), near_1CS], 2))
        (inner,) = blocks.contexts(pick, mask, context.position, shown_BNS)
        keys, values = blocks.keys(k_BGLE, pick), blocks.keys(v_BGLF, pick)
        (queries,) = blocks.queries(q_BHLE)
        return blocks.join([self.fused_sdpa(queries, keys, values, inner)])

    def _mask(self, context: AttentionContext) -> Mask:
        return intersect(Either(LocalWindow(self.options.size), GlobalTokens(self.options.global_tokens)), context.mask)
