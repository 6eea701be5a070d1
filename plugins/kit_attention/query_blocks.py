"""Cuts rows into blocks of queries, each of which sees a few keys of its own: attention whose cost is linear in length.

A block of one row becomes a row by itself, with a scope by itself, so that masks, biases and the fused kernel work on
it as on any row. Which keys a block sees is up to the part: it gives a function that picks them.

Shapes: B rows, L tokens, N blocks, C queries in a block, S keys that a block sees, H heads, G groups, E and F widths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import Facts, Layout, Mask, Position, Scope
from kit_attention.patterns import Table

Pick = Callable[[Tensor], Tensor]
"""Tokens [B, N * C, ...] to those that each block sees, [B, N, S, ...]; padding it adds is zero."""


def block_size(window: int) -> int:
    """How many queries of a window work side by side: few waste keys, many waste calls; half of it measured best."""
    return max(32, -(-window // 2))


class _Around(torch.autograd.Function):
    """Overlapping stretches as a view of padded rows: nothing is copied for them, and their gradient is a few sums."""

    @staticmethod
    def forward(ctx: Any, x_BLX: Tensor, size: int, back: int, ahead: int) -> Tensor:
        ctx.size, ctx.back, ctx.ahead = size, back, ahead
        padded = F.pad(x_BLX, (0, 0) * (x_BLX.dim() - 2) + (back * size, ahead * size))
        return padded.unfold(1, (back + 1 + ahead) * size, size).movedim(-1, 2)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        span = ctx.back + 1 + ctx.ahead
        each_BNWCX = gradients[0].unflatten(2, (span, ctx.size))
        # The block that sees itself covers every token once; the other blocks add to it where they are not padding.
        total_BNCX = each_BNWCX[:, :, ctx.back].clone()
        for step in range(span):
            shift = step - ctx.back
            if shift < 0:
                total_BNCX[:, :shift] += each_BNWCX[:, -shift:, step]
            elif shift > 0:
                total_BNCX[:, shift:] += each_BNWCX[:, :-shift, step]
        return total_BNCX.flatten(1, 2), None, None, None


class QueryBlocks:
    """The blocks of rows whose padding, if any, stands last."""

    def __init__(self, layout: Layout, size: int) -> None:
        self.layout = layout
        self.size = size
        self.count = -(-layout.length // size)

    def fill(self, x_BLX: Tensor) -> Tensor:
        """Tokens up to a whole number of blocks; what is added is zero."""
        missing = self.count * self.size - x_BLX.shape[1]
        return F.pad(x_BLX, (0, 0) * (x_BLX.dim() - 2) + (0, missing)) if missing else x_BLX

    def around(self, x_BLX: Tensor, back: int, ahead: int) -> Tensor:
        """Each block with its neighbours: [B, N, (back + 1 + ahead) * C, ...]. Takes what `fill` gives."""
        if back + ahead == 0:
            alone: Tensor = x_BLX.unflatten(1, (self.count, self.size))
            return alone
        around: Tensor = _Around.apply(x_BLX, self.size, back, ahead)  # type: ignore[no-untyped-call]
        return around

    def pattern(self, mask: Mask, back: int, ahead: int) -> Table:
        """What a mask that only looks at distances says of a block and those around it."""
        q_1C1 = torch.arange(self.size, device=self.layout.device)[None, :, None] + back * self.size
        k_11S = torch.arange((back + 1 + ahead) * self.size, device=self.layout.device)[None, None, :]
        return Table(mask.allows(q_1C1, k_11S, Facts()))

    def queries(self, x_BHLE: Tensor) -> Tensor:
        """[B * N, H, C, E]."""
        filled_BLHE = self.fill(x_BHLE.transpose(1, 2))
        blocks_RCHE: Tensor = filled_BLHE.unflatten(1, (self.count, self.size)).flatten(0, 1)
        return blocks_RCHE.transpose(1, 2)

    def keys(self, x_BGLE: Tensor, pick: Pick) -> Tensor:
        """[B * N, G, S, E]."""
        return pick(self.fill(x_BGLE.transpose(1, 2))).flatten(0, 1).transpose(1, 2)

    def join(self, out_RHCF: Tensor) -> Tensor:
        """What `queries` undoes: [B, H, L, F] of rows that are blocks."""
        out_BLHF: Tensor = out_RHCF.transpose(1, 2).unflatten(0, (-1, self.count)).flatten(1, 2)
        if out_BLHF.shape[1] > self.layout.length:
            out_BLHF = out_BLHF[:, : self.layout.length]
        return out_BLHF.transpose(1, 2)

    def scope(self, pick: Pick, mask: Mask | None, position: Position | None, shown_BNS: Tensor | None = None) -> Scope:
        """The scope of rows that are blocks; `shown_BNS` hides keys that were picked twice."""
        shape = (self.layout.rows, self.layout.length)
        valid = self.layout.valid
        real_BL = torch.ones(shape, dtype=torch.bool, device=self.layout.device) if valid is None else valid
        # Booleans cannot be padded on every device, bytes can.
        real_BNS = pick(self.fill(real_BL.to(torch.uint8))).bool()
        if shown_BNS is not None:
            real_BNS = real_BNS & shown_BNS
        queries = self._layout(lambda x_BL: x_BL.unflatten(1, (self.count, self.size)), None)
        return Scope(queries, self._layout(pick, real_BNS), mask, position)

    def _layout(self, pick: Pick, real_BNS: Tensor | None) -> Layout:
        shape = (self.layout.rows, self.layout.length)
        facts = {name: pick(self.fill(fact)).flatten(0, 1) for name, fact in self.layout.facts.items()}
        order_RS = pick(self.fill(self.layout.order.expand(shape))).flatten(0, 1)
        valid = None if real_BNS is None else real_BNS.flatten(0, 1)
        layout = Layout((order_RS.shape[0], order_RS.shape[1]), self.layout.device, valid, False, 0, facts)
        layout.order = order_RS
        return layout
