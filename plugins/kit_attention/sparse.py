"""What attentions over fixed patterns have in common: the kernel, and first tokens that see the whole text.

Shapes: B rows, L tokens, H heads, G groups, Q queries, K keys, E and F widths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import Layout, MultiHeadAttention, Scope
from kit_attention.real_first import RealFirst

Heads = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values."""


class SparseAttention(MultiHeadAttention):
    """Softmax attention whose queries see few keys."""

    def by_kernel(self, q_BHQE: Tensor, k_BGKE: Tensor, v_BGKF: Tensor, scope: Scope) -> Tensor:
        """Torch's fused kernel, or steps where weights are dropped."""
        dropout = self.options.dropout if self.training else 0.0
        if dropout > 0 and q_BHQE.device.type == "cpu":
            # Dropping weights leaves the fast path on a CPU anyway.
            return self.mix(scope.weigh(scope.scores(q_BHQE, k_BGKE, self.scale)), v_BGKF)
        return scope.attend(q_BHQE, k_BGKE, v_BGKF, self.scale, dropout)

    def in_blocks(self, heads: Heads, count: int, scope: Scope) -> Tensor:
        """What tokens give that see a pattern and the first `count` tokens; padding stands last. [B, H, L, F]."""
        raise NotImplementedError

    def with_globals(self, local: Heads, whole: Heads, count: int, scope: Scope) -> Tensor:
        """The first `count` tokens look at all with `whole`, the others at their pattern with `local`."""
        rows = RealFirst(scope.keys)
        count = min(count, rows.layout.length)
        q, k, v = (rows.forth(each) for each in local)
        rest_BHLF = self.in_blocks((q, k, v), count, Scope(rows.layout, rows.layout, scope.mask, scope.position))
        if count == 0:
            return rows.back(rest_BHLF)
        if whole is not local:
            q, k, v = (rows.forth(each) for each in whole)
        across = Scope(_first(rows.layout, count), rows.layout, scope.mask, scope.position)
        first_BHLF = self.by_kernel(q[:, :, :count], k, v, across)
        return rows.back(torch.cat([first_BHLF, rest_BHLF[:, :, count:]], 2))


def _first(layout: Layout, count: int) -> Layout:
    """The first tokens of every row, as queries."""
    facts = {name: fact[:, :count] for name, fact in layout.facts.items()}
    # Saying that all are real keeps a single one from being taken for the newest token of a text, which sees all.
    real = torch.ones(layout.rows, count, dtype=torch.bool, device=layout.device)
    first = Layout((layout.rows, count), layout.device, real, False, 0, facts)
    first.order = layout.order[:, :count]
    return first
