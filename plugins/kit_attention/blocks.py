"""Neighbouring, global and random blocks of keys: Big Bird (Zaheer et al. 2020), section 2.

Shapes: B rows, L tokens, N blocks, C tokens in a block, S keys that a block sees, R random blocks that a block sees,
H heads, G groups, E and F widths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from kit import Abilities, Dims, Layout, MultiHeadOptions, NoState, Problem, Scope, Site, State
from kit_attention.patterns import Table, within
from kit_attention.query_blocks import QueryBlocks
from kit_attention.sparse import Heads, SparseAttention

_FULL = 1 << 31


class BlocksOptions(MultiHeadOptions):
    """Whole blocks of keys: the neighbours', the first, and some at random. Reads a text, does not write one."""

    use: Literal["blocks"] = "blocks"
    size: PositiveInt = 64
    """How many tokens a block has."""
    reach: NonNegativeInt = 1
    """How many neighbouring blocks on each side a block sees."""
    global_blocks: NonNegativeInt = 1
    """How many of the first blocks see and are seen by the whole text."""
    random_blocks: NonNegativeInt = 3
    """How many other blocks a block sees: one from each of so many equal stretches of the rest of the text."""
    seed: NonNegativeInt = 0
    """What the choice of random blocks comes from; layers differ."""


class BlocksAttention(SparseAttention):
    """Scaled dot products with the keys of chosen blocks; the choice depends on a row's own length, not on padding."""

    options_type = BlocksOptions
    options: BlocksOptions
    # Keys of a block do not come in the order of the text, so what counts them up by content would count wrong.
    abilities = Abilities(positions=frozenset({"rotate", "bias"}), reads_memory=False, steps=False, cost="linear")
    draws_NR: Tensor

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        generator = torch.Generator("cpu").manual_seed(options.seed * 10_007 + site.layer)
        shape = (-(-dims.length // options.size), options.random_blocks)
        # Whole numbers, which no change of the model's type can round.
        draws = torch.randint(_FULL, shape, generator=generator, device="cpu")
        self.register_buffer("draws_NR", draws.to(torch.get_default_device()), persistent=False)

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A block must fit in the text."""
        yield from super().check(options, dims, site)
        if options.size * max(1, options.global_blocks) > dims.length:
            found = (
                f"a block of {options.size} tokens" if options.global_blocks < 2 else f"{options.global_blocks} blocks"
            )
            yield site.problem(
                f"{found} is longer than the longest text, {dims.length} tokens",
                "size",
                hint="take smaller blocks or fewer global ones",
            )

    def start(self) -> State:
        """Nothing: it does not go step by step."""
        return NoState()

    def weigh(self, q_BHQE: Tensor, k_BGKE: Tensor, scope: Scope) -> Tensor:
        """Softmax of scaled dot products over the pattern."""
        return super().weigh(q_BHQE, k_BGKE, self._dense(scope))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """In blocks."""
        heads = q_BHQE, k_BGKE, v_BGKF
        return self.with_globals(heads, heads, self.options.global_blocks * self.options.size, scope)

    def in_blocks(self, heads: Heads, count: int, scope: Scope) -> Tensor:
        """A block sees the global blocks, itself, its neighbours and its random blocks."""
        options, keys = self.options, scope.keys
        seen = options.global_blocks + 2 * options.reach + 1 + options.random_blocks
        if keys.length <= seen * options.size:
            return self.by_kernel(*heads, self._dense(scope))
        blocks = QueryBlocks(keys, options.size)
        picked_BNR, drawn_BNR = self._draw(keys)
        row_B11 = torch.arange(keys.rows, device=keys.device)[:, None, None] * blocks.count
        index = (picked_BNR + row_B11).flatten()

        def pick(x_BLX: Tensor) -> Tensor:
            first_BNSX = x_BLX[:, None, :count].expand(-1, blocks.count, *(-1,) * (x_BLX.dim() - 1))
            parts = [first_BNSX, blocks.around(x_BLX, options.reach, options.reach)]
            if options.random_blocks:
                chosen = x_BLX.reshape(-1, options.size, *x_BLX.shape[2:]).index_select(0, index)
                parts.append(chosen.reshape(keys.rows, blocks.count, -1, *x_BLX.shape[2:]))
            return torch.cat(parts, 2)

        order_BNS = blocks.around(blocks.fill(keys.order.expand(keys.rows, -1)), options.reach, options.reach)
        near_BNS = order_BNS >= count
        shown = [near_BNS.new_ones(*near_BNS.shape[:2], count), near_BNS, drawn_BNR.repeat_interleave(options.size, 2)]
        (inner,) = blocks.scopes(pick, scope.mask, scope.position, torch.cat(shown, 2))
        k, v = (blocks.keys(each, pick) for each in heads[1:])
        (q,) = blocks.queries(heads[0])
        return blocks.join([self.by_kernel(q, k, v, inner)])

    def _draw(self, keys: Layout) -> tuple[Tensor, Tensor]:
        """The random blocks of each block, and which of them there are; both [B, N, R]."""
        options = self.options
        count, share = -(-keys.length // options.size), max(1, options.random_blocks)
        block_N1 = torch.arange(count, device=keys.device)[:, None]
        step_R = torch.arange(options.random_blocks, device=keys.device)
        if keys.valid is None:
            blocks_B11 = torch.full((keys.rows, 1, 1), count, device=keys.device)
        else:
            blocks_B11 = (keys.valid.sum(1)[:, None, None] + options.size - 1) // options.size
        # What is left is two stretches: from the global blocks to the neighbours, and from the neighbours to the end.
        low_N1 = (block_N1 - options.reach).clamp(min=options.global_blocks)
        high_N1 = (block_N1 + options.reach + 1).clamp(min=options.global_blocks)
        before_N1 = low_N1 - options.global_blocks
        left_BN1 = before_N1 + (blocks_B11 - high_N1).clamp(min=0)
        draws_NR = self.draws_NR[block_N1.squeeze(1) % self.draws_NR.shape[0]]
        spread_BNR = (step_R * _FULL + draws_NR) * left_BN1 // (share * _FULL)
        chosen_BNR = torch.where(left_BN1 >= share, spread_BNR, step_R)
        picked_BNR = torch.where(
            chosen_BNR < before_N1, options.global_blocks + chosen_BNR, high_N1 + chosen_BNR - before_N1
        )
        drawn_BNR = step_R < left_BN1
        return picked_BNR.where(drawn_BNR, 0), drawn_BNR

    def _dense(self, scope: Scope) -> Scope:
        options, keys = self.options, scope.keys
        picked_BNR, drawn_BNR = self._draw(keys)
        count = picked_BNR.shape[1]
        block_N = torch.arange(count, device=keys.device)
        near_NN = (block_N[:, None] - block_N).abs() <= options.reach
        first_N = block_N < options.global_blocks
        fixed_NN = near_NN | first_N[:, None] | first_N
        drawn_BNN = torch.zeros(keys.rows, count, count, dtype=torch.int, device=keys.device)
        drawn_BNN = drawn_BNN.scatter_add(2, picked_BNR, drawn_BNR.int())
        allowed_BNN = fixed_NN | (drawn_BNN > 0)
        row_B11 = torch.arange(keys.rows, device=keys.device)[:, None, None]
        q_BQ1, k_B1K = scope.queries.order[:, :, None] // options.size, keys.order[:, None, :] // options.size
        table = Table(allowed_BNN[row_B11, q_BQ1, k_B1K])
        return Scope(scope.queries, keys, within(table, scope.mask), scope.position)
