"""Cuts rows into blocks of queries, each of which sees a few keys of its own: attention whose cost is linear in length.

A block of one row becomes a row by itself, with a scope by itself, so that masks, biases and the fused kernel work on
it as on any row. Which keys a block sees is up to the part: it gives a function that picks them.

Shapes: B rows, L tokens, N blocks, C queries in a block, S keys that a block sees, H heads, G groups, E and F widths.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Overlapping stretches as views of padded rows: nothing is copied for them, and their gradient is a few sums."""

    @staticmethod
    def forward(ctx: Any, x_BLX: Tensor, size: int, back: int, ahead: int, per: int) -> tuple[Tensor, ...]:
        ctx.size, ctx.back, ctx.ahead, ctx.per, ctx.count = size, back, ahead, per, x_BLX.shape[1] // size
        padded = F.pad(x_BLX, (0, 0) * (x_BLX.dim() - 2) + (back * size, ahead * size))
        parts: tuple[Tensor, ...] = padded.unfold(1, (back + 1 + ahead) * size, size).movedim(-1, 2).split(per, 1)
        return parts

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None, None]:
        some = gradients[0]
        total_BNCX = some.new_zeros(some.shape[0], ctx.count, ctx.size, *some.shape[3:])
        for number, part in enumerate(gradients):
            each_BNWCX = part.unflatten(2, (-1, ctx.size))
            for step in range(ctx.back + 1 + ctx.ahead):
                first = number * ctx.per + step - ctx.back
                last = first + part.shape[1]
                # What lies before the first block or after the last was padding.
                low, high = max(first, 0), min(last, ctx.count)
                if low < high:
                    total_BNCX[:, low:high] += each_BNWCX[:, low - first : high - first, step]
        return total_BNCX.flatten(1, 2), None, None, None, None


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
        return self.around_in_parts(x_BLX, back, ahead, self.count)[0]

    def around_in_parts(self, x_BLX: Tensor, back: int, ahead: int, per: int) -> tuple[Tensor, ...]:
        """The same, in parts of so many blocks: what is made for one part is still in the cache when it is used."""
        parts: tuple[Tensor, ...] = _Around.apply(x_BLX, self.size, back, ahead, per)  # type: ignore[no-untyped-call]
        return parts

    def pattern(self, mask: Mask, back: int, ahead: int) -> Table:
        """What a mask that only looks at distances says of a block and those around it."""
        q_1C1 = torch.arange(self.size, device=self.layout.device)[None, :, None] + back * self.size
        k_11S = torch.arange((back + 1 + ahead) * self.size, device=self.layout.device)[None, None, :]
        return Table(mask.allows(q_1C1, k_11S, Facts()))

    def queries(self, x_BHLE: Tensor, per: int | None = None) -> list[Tensor]:
        """[B * N, H, C, E], in parts of so many blocks of each row; one part where `per` is left out."""
        blocks_BNCHE = self.fill(x_BHLE.transpose(1, 2)).unflatten(1, (self.count, self.size))
        return [as_rows(part) for part in blocks_BNCHE.split(per or self.count, 1)]

    def keys(self, x_BGLE: Tensor, pick: Pick) -> Tensor:
        """[B * N, G, S, E]."""
        return as_rows(pick(self.fill(x_BGLE.transpose(1, 2))))

    def join(self, parts_RHCF: Sequence[Tensor]) -> Tensor:
        """What `queries` undoes: [B, H, L, F]."""
        parts_BLHF = [part.transpose(1, 2).unflatten(0, (self.layout.rows, -1)).flatten(1, 2) for part in parts_RHCF]
        out_BLHF = parts_BLHF[0] if len(parts_BLHF) == 1 else torch.cat(parts_BLHF, 1)
        if out_BLHF.shape[1] > self.layout.length:
            out_BLHF = out_BLHF[:, : self.layout.length]
        return out_BLHF.transpose(1, 2)

    def scopes(
        self,
        pick: Pick,
        mask: Mask | None,
        position: Position | None,
        shown_BNS: Tensor | None = None,
        per: int | None = None,
    ) -> list[Scope]:
        """The scopes of rows that are blocks, part by part; `shown_BNS` hides keys that were picked twice."""
        shape = (self.layout.rows, self.layout.length)
        valid = self.layout.valid
        real_BL = torch.ones(shape, dtype=torch.bool, device=self.layout.device) if valid is None else valid
        # Booleans cannot be padded on every device, bytes can.
        real_BNS = pick(self.fill(real_BL.to(torch.uint8))).bool()
        if shown_BNS is not None:
            real_BNS = real_BNS & shown_BNS
        per = per or self.count
        queries = self._layouts(lambda x_BL: x_BL.unflatten(1, (self.count, self.size)), None, per)
        keys = self._layouts(pick, real_BNS, per)
        return [Scope(query, key, mask, position) for query, key in zip(queries, keys, strict=True)]

    def _layouts(self, pick: Pick, real_BNS: Tensor | None, per: int) -> list[Layout]:
        shape = (self.layout.rows, self.layout.length)
        facts = {name: pick(self.fill(fact)) for name, fact in self.layout.facts.items()}
        order_BNS = pick(self.fill(self.layout.order.expand(shape)))
        layouts = []
        for first in range(0, self.count, per):
            part = slice(first, first + per)
            order_RS = order_BNS[:, part].flatten(0, 1)
            valid = None if real_BNS is None else real_BNS[:, part].flatten(0, 1)
            chosen = {name: fact[:, part].flatten(0, 1) for name, fact in facts.items()}
            layout = Layout((order_RS.shape[0], order_RS.shape[1]), self.layout.device, valid, False, 0, chosen)
            layout.order = order_RS
            layouts.append(layout)
        return layouts


def as_rows(blocks_BNSGE: Tensor) -> Tensor:
    """Blocks of rows as rows with heads: [B * N, G, S, E]."""
    return blocks_BNSGE.flatten(0, 1).transpose(1, 2)
