"""A window for all tokens and the whole text for the first few: Longformer (Beltagy et al. 2020), section 3.1.

Shapes: B rows, L tokens, N blocks, C queries in a block, S keys that a block sees, H heads, G groups, E and F widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import (
    Abilities,
    Dims,
    Either,
    Mask,
    MultiHeadOptions,
    NoState,
    Problem,
    Scope,
    Site,
    State,
)
from kit_attention.patterns import First, Near, Table, within
from kit_attention.query_blocks import QueryBlocks, block_size
from kit_attention.sparse import Heads, SparseAttention


class GlobalWindowOptions(MultiHeadOptions):
    """Neighbours see each other; the first tokens see all and are seen by all. Reads a text, does not write one."""

    use: Literal["global_window"] = "global_window"
    size: PositiveInt = 128
    """How many keys on each side a query sees, its own included in both; Longformer's window of w is w / 2 + 1."""
    global_tokens: PositiveInt = 1
    """How many of the first tokens see and are seen by the whole text."""
    separate: bool = True
    """Whether global queries, and the keys and values they look at, have projections of their own (the paper)."""


class GlobalWindowAttention(SparseAttention):
    """Scaled dot products in a window, with the first tokens joined to everything."""

    options_type = GlobalWindowOptions
    options: GlobalWindowOptions
    abilities = Abilities(reads_memory=False, steps=False, cost="linear")

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        if options.separate:
            own = self.query_key_value
            self.global_query_key_value = nn.Linear(own.in_features, own.out_features, options.bias)
            # Both begin equal, as the paper has it.
            self.global_query_key_value.load_state_dict(own.state_dict())

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """The window and the global tokens must fit in the text."""
        yield from super().check(options, dims, site)
        for name, value in (("size", options.size), ("global_tokens", options.global_tokens)):
            if value > dims.length:
                yield site.problem(
                    f"{name} is {value}, and the longest text has {dims.length} tokens",
                    name,
                    hint=f"take at most {dims.length}",
                )

    def start(self) -> State:
        """Nothing: it does not go step by step."""
        return NoState()

    def value_path(self) -> list[Tensor]:
        """With what makes the values that global queries take."""
        own = [self.global_query_key_value.weight[-self.v_size :]] if self.options.separate else []
        return [*super().value_path(), *own]

    def forward(self, x: Tensor, memory: Tensor | None, scope: Scope, state: State | None = None) -> Tensor:
        """Project, look around in heads, let the first tokens look at all, join."""
        if not self.options.separate:
            return super().forward(x, memory, scope, state)
        local = self.project(x, memory, scope, None)
        whole = self._project_globals(x, scope)
        if scope.watcher is None:
            out_BHLF = self.with_globals(local, whole, self.options.global_tokens, scope)
        else:
            first_BHL1 = (scope.queries.order < self.options.global_tokens)[:, None, :, None]
            weights = self.weigh(local[0], local[1], scope), super().weigh(whole[0], whole[1], scope)
            scope.watcher.weights(self.site, torch.where(first_BHL1, weights[1], weights[0]), scope)
            mixed = torch.where(first_BHL1, self.mix(weights[1], whole[2]), self.mix(weights[0], local[2]))
            out_BHLF = scope.watcher.heads(self.site, mixed)
        return self.join(scope.queries.from_heads(out_BHLF), x)

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of scaled dot products over the pattern."""
        return super().weigh(q_BHQE, k_BGKE, Scope(scope.queries, scope.keys, self._mask(scope), scope.position))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """In blocks."""
        heads = q_BHQE, k_BGKE, v_BGKF
        return self.with_globals(heads, heads, self.options.global_tokens, scope)

    def _project_globals(self, x: Tensor, scope: Scope) -> tuple[Tensor, Tensor, Tensor]:
        projected = self.global_query_key_value(x)
        q_BHLE, k_BGLE, v_BGLF = self.to_heads(projected, scope.queries, self.heads, self.groups)
        return scope.rotate_queries(self.shape_queries(q_BHLE)), scope.rotate_keys(self.shape_keys(k_BGLE)), v_BGLF

    def in_blocks(self, heads: Heads, count: int, scope: Scope) -> Tensor:
        """A block sees the global tokens, itself and its neighbours."""
        q_BHLE, k_BGLE, v_BGLF = heads
        size = block_size(self.options.size)
        reach = -(-(self.options.size - 1) // size)
        if scope.keys.length <= 2 * size:
            dense = Scope(scope.queries, scope.keys, self._mask(scope), scope.position)
            return self.by_kernel(q_BHLE, k_BGLE, v_BGLF, dense)
        blocks = QueryBlocks(scope.keys, size)

        def pick(x_BLX: Tensor) -> Tensor:
            first_BNSX = x_BLX[:, None, :count].expand(-1, blocks.count, *(-1,) * (x_BLX.dim() - 1))
            return torch.cat([first_BNSX, blocks.around(x_BLX, reach, reach)], 2)

        order_BNS = blocks.around(blocks.fill(scope.keys.order.expand(scope.keys.rows, -1)), reach, reach)
        # A global token that is also a neighbour must not count twice.
        again_BNS = order_BNS < count
        shown_BNS = torch.cat([again_BNS.new_ones(*again_BNS.shape[:2], count), ~again_BNS], 2)
        mask = self._mask(scope)
        if scope.mask is None and not scope.biased:
            near_1CS = blocks.pattern(Near(self.options.size), reach, reach).allowed_BQK
            mask = Table(torch.cat([near_1CS.new_ones(1, size, count), near_1CS], 2))
        (inner,) = blocks.scopes(pick, mask, scope.position, shown_BNS)
        keys, values = blocks.keys(k_BGLE, pick), blocks.keys(v_BGLF, pick)
        (queries,) = blocks.queries(q_BHLE)
        return blocks.join([self.by_kernel(queries, keys, values, inner)])

    def _mask(self, scope: Scope) -> Mask:
        return within(Either(Near(self.options.size), First(self.options.global_tokens)), scope.mask)
