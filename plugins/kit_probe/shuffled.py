"""Position against content by intervention: the variance of attention explained by each, over shuffled tokens.

In natural sequences content correlates with position; in shuffled ones it does not. Variance explained by a pair of
positions over all orders is positional; variance explained by a pair of tokens over all positions is content.

Shapes: O orders, H heads, T tokens that are shuffled, C pairs of positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import SELF_ATTENTION, AttentionRecord, ExampleIds, HeadProbe, Inspector, Options


class ShuffledOptions(Options):
    """Options of `shuffled`."""

    use: Literal["shuffled"] = "shuffled"
    sequences: PositiveInt = 16
    """The number of sequences that are shuffled."""
    orders: int = Field(default=16, ge=3)
    """The number of orders of each."""
    seed: int = 0
    """The seed of the orders."""


class ShuffledProbe(HeadProbe):
    """Special tokens keep their positions and are excluded."""

    options_type = ShuffledOptions
    options: ShuffledOptions
    kinds = SELF_ATTENTION
    costly = True

    @property
    def quantities(self) -> Mapping[str, str]:
        """Three shares of the variance, which sum to one."""
        return {
            "position (shuffled)": "with tokens shuffled, the share of variance explained by the pair of positions",
            "content (shuffled)": "with tokens shuffled, the share explained by the pair of tokens, at any positions",
            "interaction (shuffled)": "with tokens shuffled, the share explained by neither alone",
        }

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """Each sequence in many orders; source and target are shuffled independently."""
        generator = torch.Generator().manual_seed(self.options.seed)
        for row in rows[: self.options.sequences]:
            count = self.options.orders
            source = [torch.randperm(len(row.source), generator=generator) for _ in range(count)]
            target = [torch.randperm(len(row.target or ()), generator=generator) for _ in range(count)]
            changed = [
                replace(
                    row,
                    source=_permuted(row.source, one),
                    target=None if row.target is None else _permuted(row.target, two),
                )
                for one, two in zip(source, target, strict=True)
            ]
            records = inspector.run(changed)
            kept = {}
            for found in records[0].maps:
                orders = source if found.kind == "encoder" or not inspector.reader.generates else target
                if found.kind in self.kinds and orders[0].numel() > 2 and inspector.reader.row_format != "prefix_lm":
                    kept[found.site] = self.measure(records, found.site, torch.stack(orders))
            if kept:
                yield kept

    def measure(self, records: Sequence[AttentionRecord], site: str, order_OT: Tensor) -> Tensor:
        """[H, 3]: the total sum of squares, that of position pairs, and that of token pairs."""
        first = records[0][site]
        row = records[0].queries(first)
        positions = torch.tensor([position for position, special in enumerate(row.special) if not special])
        mask_TT = first.attention_mask[positions][:, positions] & (
            first.attention_mask[positions].sum(1, keepdim=True) > 1
        )
        uniform_TT = first.uniform().probabilities[0][positions][:, positions]
        y_OHTT = (
            torch.stack([record[site].probabilities[:, positions][:, :, positions] for record in records]) - uniform_TT
        )
        y_OHC = y_OHTT[:, :, mask_TT]
        one_C, other_C = mask_TT.nonzero().T
        pair_OC = order_OT[:, one_C] * order_OT.shape[1] + order_OT[:, other_C]
        return variation(y_OHC, pair_OC)

    def aggregate(self, kept_SH: Tensor) -> Tensor:
        """The shares of the sum of squares over all sequences."""
        total_H, position_H, content_H = kept_SH.sum(0).unbind(-1)
        shares_H3 = torch.stack([position_H, content_H, total_H - position_H - content_H], -1)
        return shares_H3 / total_H[:, None]


def variation(y_OHC: Tensor, pair_OC: Tensor) -> Tensor:
    """[H, 3]: the sums of squares: total, between position pairs, and between token pairs in the residual.

    Means of few values follow noise, and that expected part is subtracted.
    """
    orders = y_OHC.shape[0]
    mean_HC = y_OHC.mean(0)
    rest_OHC = y_OHC - mean_HC
    within_H = rest_OHC.square().sum((0, 2))
    position_H = orders * mean_HC.square().sum(-1) - within_H / (orders - 1)
    flat_HN = rest_OHC.transpose(0, 1).flatten(1)
    _, pair_N, count_P = pair_OC.flatten().unique(return_inverse=True, return_counts=True)
    sums_HP = flat_HN.new_zeros(flat_HN.shape[0], len(count_P)).index_add_(1, pair_N, flat_HN)
    squares_HP = torch.zeros_like(sums_HP).index_add_(1, pair_N, flat_HN.square())
    between_HP = sums_HP.square() / count_P
    noise_HP = (squares_HP - between_HP) / (count_P - 1).clamp(min=1)
    several_P = count_P > 1  # a pair that occurs once has no variance estimate
    # The residual of the position means is smaller by (orders - 1) / orders.
    content_H = (between_HP - noise_HP)[:, several_P].sum(1) * orders / (orders - 1)
    return torch.stack([y_OHC.square().sum((0, 2)), position_H, content_H], -1)


def _permuted(ids: tuple[int, ...], order: Tensor) -> tuple[int, ...]:
    return tuple(ids[int(position)] for position in order)
