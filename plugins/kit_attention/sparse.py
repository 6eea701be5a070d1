"""Sparse attention over fixed patterns: the patterns as masks, the fused kernel, and global tokens.

Shapes: B batch, L tokens, H query heads, G key-value heads, Q queries, K keys, E and F dimensions of keys and values.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import AttentionContext, BatchLayout, Both, Mask, MaskFeatures, MultiHeadAttention
from kit_attention.left_align import LeftAligned

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values."""


class SparseAttention(MultiHeadAttention):
    """Softmax attention whose queries see few keys; a variant overrides `attend_in_blocks`."""

    def fused_sdpa(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, context: AttentionContext) -> Tensor:
        """Scaled dot-product attention by a fused kernel, eager where weights are dropped on a CPU: [B, H, Q, F]."""
        dropout = self.options.dropout if self.training else 0.0
        if dropout > 0 and q_BHQE.device.type == "cpu":
            # Dropout rules out the fused kernel on a CPU anyway.
            return self.weighted_sum(context.masked_softmax(context.scores(q_BHQE, k_BGKE, self.scale)), v_BGKF)
        return context.attend(q_BHQE, k_BGKE, v_BGKF, self.scale, dropout)

    def attend_in_blocks(self, heads: Heads, count: int, context: AttentionContext) -> Tensor:
        """Attention of right-padded tokens to their pattern and to the first `count` tokens: [B, H, L, F]."""
        raise NotImplementedError

    def with_globals(self, local: Heads, whole: Heads, count: int, context: AttentionContext) -> Tensor:
        """Attention of the first `count` tokens to all by `whole`, of the others to their pattern by `local`."""
        rows = LeftAligned(context.keys)
        count = min(count, rows.layout.length)
        q, k, v = (rows.align(each) for each in local)
        rest_BHLF = self.attend_in_blocks(
            (q, k, v), count, AttentionContext(rows.layout, rows.layout, context.mask, context.position)
        )
        if count == 0:
            return rows.restore(rest_BHLF)
        if whole is not local:
            q, k, v = (rows.align(each) for each in whole)
        across = AttentionContext(_first(rows.layout, count), rows.layout, context.mask, context.position)
        first_BHLF = self.fused_sdpa(q[:, :, :count], k, v, across)
        return rows.restore(torch.cat([first_BHLF, rest_BHLF[:, :, count:]], 2))


def _first(layout: BatchLayout, count: int) -> BatchLayout:
    """The first tokens of every row, as queries."""
    features = {name: feature[:, :count] for name, feature in layout.features.items()}
    # A padding mask keeps a single one from being taken for the newest token while decoding, which sees all.
    real = torch.ones(layout.rows, count, dtype=torch.bool, device=layout.device)
    first = BatchLayout((layout.rows, count), layout.device, real, False, 0, features)
    first.token_index = layout.token_index[:, :count]
    return first


class LocalWindow(Mask):
    """Allows keys less than `size` away, before or after."""

    def __init__(self, size: int) -> None:
        self.size = size

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """|q - k| < size."""
        return (q - k).abs() < self.size


class GlobalTokens(Mask):
    """Allows pairs of which one is among the first tokens of the sequence."""

    def __init__(self, count: int) -> None:
        self.count = count

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """q or k below `count`."""
        return (q < self.count) | (k < self.count)


class PrecomputedMask(Mask):
    """Allows the pairs of a boolean tensor that was computed for one batch."""

    def __init__(self, allowed_BQK: Tensor) -> None:
        self.allowed_BQK = allowed_BQK

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """The tensor."""
        return self.allowed_BQK


def intersect(pattern: Mask, mask: Mask | None) -> Mask:
    """The pairs that both a pattern and the masks of a recipe allow."""
    return pattern if mask is None else Both(pattern, mask)
