"""Sliding-window attention of linear cost: Mistral 7B (Jiang et al. 2023), after Longformer (Beltagy et al. 2020).

Shapes: B batch, L tokens, N blocks, C queries per block, H query heads, G key-value heads, Q queries, K keys, E and F
dimensions of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import (
    AttentionContext,
    BatchLayout,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    MultiHeadOptions,
    Problem,
)
from kit_attention.left_align import LeftAligned
from kit_attention.query_blocks import QueryBlocks, as_rows, block_size
from kit_attention.rolling import RollingCache
from kit_attention.sparse import LocalWindow, SparseAttention, intersect

_QUERIES_PER_CALL = 1024
"""Queries per call of the kernel, few enough for its operands to stay in the processor's cache."""


class WindowOptions(MultiHeadOptions):
    """Sliding-window attention: each query sees its neighbours only; linear cost, and a rolling KV cache."""

    use: Literal["window"] = "window"
    size: PositiveInt = 128
    """Keys back that a query sees, its own included; without a causal mask, as many ahead."""


class WindowAttention(SparseAttention):
    """Scaled dot-product attention to keys less than `size` away, in the directions that the masks allow."""

    options_type = WindowOptions
    options: WindowOptions
    capabilities = Capabilities(reads_memory=False, cost="linear")

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The window must not exceed the maximum length."""
        yield from super().check(options, dims, build_context)
        if options.size > dims.length:
            yield build_context.problem(
                f"a window of {options.size} is longer than the longest sequence, {dims.length} tokens",
                "size",
                hint=f"take at most {dims.length}, or choose softmax attention",
            )

    def start(self) -> Cache:
        """A rolling KV cache of the window."""
        return RollingCache(self.options.size - 1)

    def forward(
        self, x: Tensor, memory: Tensor | None, context: AttentionContext, state: Cache | None = None
    ) -> Tensor:
        """Project, attend within the window, project the output: like x."""
        if not isinstance(state, RollingCache):
            return super().forward(x, memory, context, state)
        q, k, v = self.project(x, memory, context, None)
        k, v, keys = state.extend(k, v, context.keys)
        inner = AttentionContext(context.queries, keys, context.mask, context.position)
        if context.observer is None:
            out_BHQF = self.attend(q, k, v, inner)
        else:
            weights_BHQK = self.attention_weights(q, k, inner)
            context.observer.weights(self.build_context, state.scatter_weights(weights_BHQK, context.keys), context)
            out_BHQF = context.observer.heads(self.build_context, self.weighted_sum(weights_BHQK, v))
        return self.project_output(context.queries.from_heads(out_BHQF), x)

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of scaled dot products over the keys in the window, computed densely: [B, H, Q, K]."""
        return super().attention_weights(q_BHQE, k_BGKE, self._near(context))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Block by block, or densely where there are too few queries for blocks to pay: [B, H, Q, F]."""
        if q_BHQE.shape[2] <= 2 * block_size(self.options.size) or context.keys.length <= self.options.size:
            return self.fused_sdpa(q_BHQE, k_BGKE, v_BGKF, self._near(context))
        cached = k_BGKE.shape[2] - q_BHQE.shape[2]
        if cached:
            # Queries and keys are cut into the same blocks, so cached keys get dummy queries.
            q_BHQE = torch.cat([q_BHQE.new_zeros(*q_BHQE.shape[:2], cached, q_BHQE.shape[3]), q_BHQE], 2)
        rows = LeftAligned(context.keys)
        q, k, v = rows.align(q_BHQE), rows.align(k_BGKE), rows.align(v_BGKF)
        out_BHLF = rows.restore(self._in_blocks(q, k, v, rows.layout, context))
        return out_BHLF[:, :, cached:] if cached else out_BHLF

    def _in_blocks(
        self, q_BHLE: Tensor, k_BGLE: Tensor, v_BGLF: Tensor, layout: BatchLayout, context: AttentionContext
    ) -> Tensor:
        blocks = QueryBlocks(layout, block_size(self.options.size))
        back = -(-(self.options.size - 1) // blocks.size)
        ahead = 0 if context.mask is not None and context.mask.hides_future else back

        def pick(x_BLX: Tensor) -> Tensor:
            return blocks.around(x_BLX, back, ahead)

        mask = intersect(LocalWindow(self.options.size), context.mask)
        if not context.biased and (context.mask is None or context.mask.shape == "causal"):
            # All blocks share one pattern then; padding is masked separately.
            mask = blocks.pattern(mask, back, ahead)
        per = max(1, _QUERIES_PER_CALL // blocks.size)
        inner = blocks.contexts(pick, mask, context.position, per=per)
        queries = blocks.queries(q_BHLE, per)
        keys, values = (
            [as_rows(part) for part in blocks.around_in_parts(blocks.fill(each.transpose(1, 2)), back, ahead, per)]
            for each in (k_BGLE, v_BGLF)
        )
        return blocks.join([self.fused_sdpa(*part) for part in zip(queries, keys, values, inner, strict=True)])

    def _near(self, context: AttentionContext) -> AttentionContext:
        # A window over all keys hides none; an exported graph must hold for any length.
        if not torch.compiler.is_exporting() and context.keys.length <= self.options.size:
            return context
        return AttentionContext(
            context.queries, context.keys, intersect(LocalWindow(self.options.size), context.mask), context.position
        )
