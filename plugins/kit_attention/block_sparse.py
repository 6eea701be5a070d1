"""Block-sparse attention over local, global and random blocks of keys: BigBird (Zaheer et al. 2020), section 2.

Shapes: B batch, L tokens, N blocks, C tokens per block, S keys visible to a block, R random blocks per block,
H query heads, G key-value heads, E and F dimensions of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from kit import (
    AttentionContext,
    BatchLayout,
    BuildContext,
    Cache,
    Capabilities,
    Dims,
    MultiHeadOptions,
    NoCache,
    Problem,
)
from kit_attention.query_blocks import QueryBlocks
from kit_attention.sparse import Heads, PrecomputedMask, SparseAttention, intersect

_FULL = 1 << 31


class BlockSparseOptions(MultiHeadOptions):
    """BigBird attention: each block of queries sees neighbouring, global and random blocks; encoders only."""

    use: Literal["block_sparse"] = "block_sparse"
    size: PositiveInt = 64
    """Tokens per block."""
    reach: NonNegativeInt = 1
    """Neighbouring blocks on each side that a block sees."""
    global_blocks: NonNegativeInt = 1
    """Leading blocks that see and are seen by the whole sequence."""
    random_blocks: NonNegativeInt = 3
    """Random blocks that a block sees: one from each of as many equal parts of the rest of the sequence."""
    seed: NonNegativeInt = 0
    """Seed of the random blocks; each layer draws its own."""


class BlockSparseAttention(SparseAttention):
    """Scaled dot-product attention to chosen blocks; the choice depends on the sequence length, not on padding."""

    options_type = BlockSparseOptions
    options: BlockSparseOptions
    # The keys of a block are not in the order of the sequence, so biases that accumulate over content would be wrong.
    capabilities = Capabilities(
        positions=frozenset({"rotate", "bias"}), reads_memory=False, incremental=False, cost="linear"
    )
    draws_NR: Tensor

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        generator = torch.Generator("cpu").manual_seed(options.seed * 10_007 + build_context.layer)
        shape = (-(-dims.length // options.size), options.random_blocks)
        # Integers, which no cast of the model can round.
        draws = torch.randint(_FULL, shape, generator=generator, device="cpu")
        self.register_buffer("draws_NR", draws.to(torch.get_default_device()), persistent=False)

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """A block must fit into the longest sequence."""
        yield from super().check(options, dims, build_context)
        if options.size * max(1, options.global_blocks) > dims.length:
            found = (
                f"a block of {options.size} tokens" if options.global_blocks < 2 else f"{options.global_blocks} blocks"
            )
            yield build_context.problem(
                f"{found} is longer than the longest sequence, {dims.length} tokens",
                "size",
                hint="take smaller blocks or fewer global ones",
            )

    def start(self) -> Cache:
        """No cache: it does not decode incrementally."""
        return NoCache()

    def attention_weights(self, q_BHQE: Tensor, k_BGKE: Tensor, context: AttentionContext) -> Tensor:
        """Softmax of scaled dot products over the pattern, computed densely: [B, H, Q, K]."""
        return super().attention_weights(q_BHQE, k_BGKE, self._dense(context))

    def attend(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Block by block, in time linear in the length: [B, H, Q, F]."""
        heads = q_BHQE, k_BGKE, v_BGKF
        return self.with_globals(heads, heads, self.options.global_blocks * self.options.size, context)

    def attend_in_blocks(self, heads: Heads, count: int, context: AttentionContext) -> Tensor:
        """Attention of each block to the global blocks, itself, its neighbours and its random blocks."""
        options, keys = self.options, context.keys
        seen = options.global_blocks + 2 * options.reach + 1 + options.random_blocks
        if keys.length <= seen * options.size:
            return self.fused_sdpa(*heads, self._dense(context))
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

        order_BNS = blocks.around(blocks.fill(keys.token_index.expand(keys.rows, -1)), options.reach, options.reach)
        near_BNS = order_BNS >= count
        shown = [near_BNS.new_ones(*near_BNS.shape[:2], count), near_BNS, drawn_BNR.repeat_interleave(options.size, 2)]
        (inner,) = blocks.contexts(pick, context.mask, context.position, torch.cat(shown, 2))
        k, v = (blocks.keys(each, pick) for each in heads[1:])
        (q,) = blocks.queries(heads[0])
        return blocks.join([self.fused_sdpa(q, k, v, inner)])

    def _draw(self, keys: BatchLayout) -> tuple[Tensor, Tensor]:
        """The random blocks of each block, and which of them exist; both [B, N, R]."""
        options = self.options
        count, share = -(-keys.length // options.size), max(1, options.random_blocks)
        block_N1 = torch.arange(count, device=keys.device)[:, None]
        step_R = torch.arange(options.random_blocks, device=keys.device)
        if keys.padding_mask is None:
            blocks_B11 = torch.full((keys.rows, 1, 1), count, device=keys.device)
        else:
            blocks_B11 = (keys.padding_mask.sum(1)[:, None, None] + options.size - 1) // options.size
        # Two ranges are left: from the global blocks to the neighbours, and from the neighbours to the end.
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

    def _dense(self, context: AttentionContext) -> AttentionContext:
        options, keys = self.options, context.keys
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
        q_BQ1, k_B1K = (
            context.queries.token_index[:, :, None] // options.size,
            keys.token_index[:, None, :] // options.size,
        )
        table = PrecomputedMask(allowed_BNN[row_B11, q_BQ1, k_B1K])
        return AttentionContext(context.queries, keys, intersect(table, context.mask), context.position)
