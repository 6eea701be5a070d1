"""Query blocks: sequences cut into blocks of queries with a few keys each, for attention of linear cost.

Each block becomes a row of its own, with its own attention context, so that masks, biases and the fused kernel work as
on any row. A function of the variant picks the keys of each block.

Shapes: B batch, L tokens, N blocks, C queries per block, S keys visible to a block, R = B · N rows, H query heads, G
key-value heads, E and F dimensions of keys and values, X any axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from kit import AttentionContext, BatchLayout, Mask, MaskFeatures, Position
from kit_attention.sparse import PrecomputedMask

Pick = Callable[[Tensor], Tensor]
"""Maps tokens [B, N · C, ...] to those that each block sees, [B, N, S, ...]; added padding is zero."""


def block_size(window: int) -> int:
    """Queries per block for a window: half of it, which was measured as the best trade of wasted keys and calls."""
    return max(32, -(-window // 2))


class _Around(torch.autograd.Function):
    """Overlapping segments as views of padded rows, without copies; the gradient is a few sums."""

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
                # Before the first block and after the last is padding.
                low, high = max(first, 0), min(last, ctx.count)
                if low < high:
                    total_BNCX[:, low:high] += each_BNWCX[:, low - first : high - first, step]
        return total_BNCX.flatten(1, 2), None, None, None, None


class QueryBlocks:
    """The blocks of right-padded rows."""

    def __init__(self, layout: BatchLayout, size: int) -> None:
        self.layout = layout
        self.size = size
        self.count = -(-layout.length // size)

    def fill(self, x_BLX: Tensor) -> Tensor:
        """Tokens padded with zeros to a whole number of blocks: [B, N · C, ...]."""
        missing = self.count * self.size - x_BLX.shape[1]
        return F.pad(x_BLX, (0, 0) * (x_BLX.dim() - 2) + (0, missing)) if missing else x_BLX

    def around(self, x_BLX: Tensor, back: int, ahead: int) -> Tensor:
        """Each block with its neighbours, from the result of `fill`: [B, N, (back + 1 + ahead) · C, ...]."""
        return self.around_in_parts(x_BLX, back, ahead, self.count)[0]

    def around_in_parts(self, x_BLX: Tensor, back: int, ahead: int, per: int) -> tuple[Tensor, ...]:
        """The same in parts of `per` blocks, so that a part is still in the processor's cache when it is used."""
        parts: tuple[Tensor, ...] = _Around.apply(x_BLX, self.size, back, ahead, per)  # type: ignore[no-untyped-call]
        return parts

    def pattern(self, mask: Mask, back: int, ahead: int) -> PrecomputedMask:
        """A mask that depends on distances only, evaluated for one block and its neighbours: [1, C, S]."""
        q_1C1 = torch.arange(self.size, device=self.layout.device)[None, :, None] + back * self.size
        k_11S = torch.arange((back + 1 + ahead) * self.size, device=self.layout.device)[None, None, :]
        return PrecomputedMask(mask.allows(q_1C1, k_11S, MaskFeatures()))

    def queries(self, x_BHLE: Tensor, per: int | None = None) -> list[Tensor]:
        """Queries as [R, H, C, E], in parts of `per` blocks of each row; one part by default."""
        blocks_BNCHE = self.fill(x_BHLE.transpose(1, 2)).unflatten(1, (self.count, self.size))
        return [as_rows(part) for part in blocks_BNCHE.split(per or self.count, 1)]

    def keys(self, x_BGLE: Tensor, pick: Pick) -> Tensor:
        """Keys or values of each block: [R, G, S, E]."""
        return as_rows(pick(self.fill(x_BGLE.transpose(1, 2))))

    def join(self, parts_RHCF: Sequence[Tensor]) -> Tensor:
        """Inverse of `queries`, for outputs: [B, H, L, F]."""
        parts_BLHF = [part.transpose(1, 2).unflatten(0, (self.layout.rows, -1)).flatten(1, 2) for part in parts_RHCF]
        out_BLHF = parts_BLHF[0] if len(parts_BLHF) == 1 else torch.cat(parts_BLHF, 1)
        if out_BLHF.shape[1] > self.layout.length:
            out_BLHF = out_BLHF[:, : self.layout.length]
        return out_BLHF.transpose(1, 2)

    def contexts(
        self,
        pick: Pick,
        mask: Mask | None,
        position: Position | None,
        shown_BNS: Tensor | None = None,
        per: int | None = None,
    ) -> list[AttentionContext]:
        """The attention context of each part; `shown_BNS` is false for keys to hide, such as those picked twice."""
        shape = (self.layout.rows, self.layout.length)
        padding_mask = self.layout.padding_mask
        real_BL = (
            torch.ones(shape, dtype=torch.bool, device=self.layout.device) if padding_mask is None else padding_mask
        )
        # Booleans cannot be padded on every device, bytes can.
        real_BNS = pick(self.fill(real_BL.to(torch.uint8))).bool()
        if shown_BNS is not None:
            real_BNS = real_BNS & shown_BNS
        per = per or self.count
        queries = self._layouts(lambda x_BL: x_BL.unflatten(1, (self.count, self.size)), None, per)
        keys = self._layouts(pick, real_BNS, per)
        return [AttentionContext(query, key, mask, position) for query, key in zip(queries, keys, strict=True)]

    def _layouts(self, pick: Pick, real_BNS: Tensor | None, per: int) -> list[BatchLayout]:
        shape = (self.layout.rows, self.layout.length)
        features = {name: pick(self.fill(feature)) for name, feature in self.layout.features.items()}
        order_BNS = pick(self.fill(self.layout.token_index.expand(shape)))
        layouts = []
        for first in range(0, self.count, per):
            part = slice(first, first + per)
            order_RS = order_BNS[:, part].flatten(0, 1)
            padding_mask = None if real_BNS is None else real_BNS[:, part].flatten(0, 1)
            chosen = {name: feature[:, part].flatten(0, 1) for name, feature in features.items()}
            layout = BatchLayout(
                (order_RS.shape[0], order_RS.shape[1]), self.layout.device, padding_mask, False, 0, chosen
            )
            layout.token_index = order_RS
            layouts.append(layout)
        return layouts


def as_rows(blocks_BNSGE: Tensor) -> Tensor:
    """[B, N, S, G, E] to rows with heads [R, G, S, E]."""
    return blocks_BNSGE.flatten(0, 1).transpose(1, 2)
