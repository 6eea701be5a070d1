"""Local attention in blocks, linear in length: Mistral 7B (Jiang et al. 2023), after Longformer (Beltagy et al. 2020).

Shapes: B rows, L tokens, N blocks, C queries in a block, H heads, G groups, Q queries, K keys, E and F widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import (
    Abilities,
    Dims,
    Layout,
    MultiHeadOptions,
    Problem,
    Scope,
    Site,
    State,
)
from kit_attention.patterns import Near, within
from kit_attention.query_blocks import QueryBlocks, as_rows, block_size
from kit_attention.real_first import RealFirst
from kit_attention.rolling import RollingState
from kit_attention.sparse import SparseAttention

_STRETCH = 1024
"""How many queries go to the kernel in one call: what it makes for them is then still in the cache afterwards."""


class WindowOptions(MultiHeadOptions):
    """Each query sees only its neighbours, so that cost and memory grow with the text and not with its square."""

    use: Literal["window"] = "window"
    size: PositiveInt = 128
    """How many keys back a query sees, its own included; where the future is not hidden, as many ahead."""


class WindowAttention(SparseAttention):
    """Scaled dot products with keys less than `size` away, in whichever directions the masks leave open."""

    options_type = WindowOptions
    options: WindowOptions
    abilities = Abilities(reads_memory=False, cost="linear")

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A window must be shorter than the text."""
        yield from super().check(options, dims, site)
        if options.size > dims.length:
            yield site.problem(
                f"a window of {options.size} is longer than the longest text, {dims.length} tokens",
                "size",
                hint=f"take at most {dims.length}, or choose softmax attention",
            )

    def start(self) -> State:
        """As many keys and values as a window reaches back."""
        return RollingState(self.options.size - 1)

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Project, look around in heads, join."""
        if not isinstance(state, RollingState):
            return super().forward(x, memory, scope, state)
        q, k, v = self.project(x, memory, scope, None)
        k, v, keys = state.extend(k, v, scope.keys)
        inner = Scope(scope.queries, keys, scope.mask, scope.position)
        if scope.watcher is None:
            out_BHQF = self.attend(q, k, v, inner)
        else:
            weights_BHQK = self.weigh(q, k, inner)
            scope.watcher.weights(self.site, state.spread(weights_BHQK, scope.keys), scope)
            out_BHQF = scope.watcher.heads(self.site, self.mix(weights_BHQK, v))
        return self.join(scope.queries.from_heads(out_BHQF), x)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of scaled dot products over the keys in the window."""
        return super().weigh(q_BHQE, k_BGKE, self._near(scope))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """In blocks, unless there are too few queries for that to pay."""
        if q_BHQE.shape[2] <= 2 * block_size(self.options.size) or scope.keys.length <= self.options.size:
            return self.by_kernel(q_BHQE, k_BGKE, v_BGKF, self._near(scope))
        remembered = k_BGKE.shape[2] - q_BHQE.shape[2]
        if remembered:
            # Blocks are cut from one row of tokens, so what is only remembered gets queries that nobody asked for.
            q_BHQE = torch.cat([q_BHQE.new_zeros(*q_BHQE.shape[:2], remembered, q_BHQE.shape[3]), q_BHQE], 2)
        rows = RealFirst(scope.keys)
        q, k, v = rows.forth(q_BHQE), rows.forth(k_BGKE), rows.forth(v_BGKF)
        out_BHLF = rows.back(self._in_blocks(q, k, v, rows.layout, scope))
        return out_BHLF[:, :, remembered:] if remembered else out_BHLF

    def _in_blocks(self, q_BHLE: Tensor, k_BGLE: Tensor, v_BGLF: Tensor, layout: Layout, scope: Scope) -> Tensor:
        blocks = QueryBlocks(layout, block_size(self.options.size))
        back = -(-(self.options.size - 1) // blocks.size)
        ahead = 0 if scope.mask is not None and scope.mask.hides_future else back

        def pick(x_BLX: Tensor) -> Tensor:
            return blocks.around(x_BLX, back, ahead)

        mask = within(Near(self.options.size), scope.mask)
        if not scope.biased and (scope.mask is None or scope.mask.shape == "causal"):
            # Every block then sees the same pattern, made once; which of its keys are real is another matter.
            mask = blocks.pattern(mask, back, ahead)
        per = max(1, _STRETCH // blocks.size)
        inner = blocks.scopes(pick, mask, scope.position, per=per)
        queries = blocks.queries(q_BHLE, per)
        keys, values = (
            [as_rows(part) for part in blocks.around_in_parts(blocks.fill(each.transpose(1, 2)), back, ahead, per)]
            for each in (k_BGLE, v_BGLF)
        )
        return blocks.join([self.by_kernel(*part) for part in zip(queries, keys, values, inner, strict=True)])

    def _near(self, scope: Scope) -> Scope:
        # A window that holds all keys hides none; a graph that is exported is for texts of any length.
        if not torch.compiler.is_exporting() and scope.keys.length <= self.options.size:
            return scope
        return Scope(scope.queries, scope.keys, within(Near(self.options.size), scope.mask), scope.position)
