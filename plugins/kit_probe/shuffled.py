"""Position against content by intervention: the same tokens in many orders, and what attention follows.

In a text what is said goes with where it stands; in shuffled texts it does not. Weights that belong to two places
whatever stands there go by position; weights that belong to two tokens wherever they stand go by content.

Shapes: O orders, H heads, T tokens that are shuffled, C pairs of places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import ITS_OWN_TEXT, AttentionRecord, HeadProbe, Ids, Inspector, Options


class ShuffledOptions(Options):
    """Options of `shuffled`."""

    use: Literal["shuffled"] = "shuffled"
    texts: PositiveInt = 16
    """How many texts are shuffled."""
    orders: int = Field(default=16, ge=3)
    """How many orders of each are read."""
    seed: int = 0
    """What the orders depend on."""


class ShuffledProbe(HeadProbe):
    """Tokens that stand for no text stay where they are, and do not count."""

    options_type = ShuffledOptions
    options: ShuffledOptions
    kinds = ITS_OWN_TEXT
    costly = True

    @property
    def quantities(self) -> Mapping[str, str]:
        """Three shares that sum to one."""
        return {
            "position (shuffled)": "with tokens shuffled, the share of variation that goes with two places",
            "content (shuffled)": "with tokens shuffled, the share that goes with two tokens, wherever they stand",
            "interaction (shuffled)": "with tokens shuffled, what goes with neither alone",
        }

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """Each text in many orders; both sides of a pair have orders of their own."""
        generator = torch.Generator().manual_seed(self.options.seed)
        for row in rows[: self.options.texts]:
            count = self.options.orders
            source = [torch.randperm(len(row.source), generator=generator) for _ in range(count)]
            target = [torch.randperm(len(row.target or ()), generator=generator) for _ in range(count)]
            changed = [
                replace(
                    row, source=_moved(row.source, one), target=None if row.target is None else _moved(row.target, two)
                )
                for one, two in zip(source, target, strict=True)
            ]
            records = inspector.look(changed)
            kept = {}
            for found in records[0].maps:
                orders = source if found.kind == "encoder" or not inspector.reader.writes else target
                if found.kind in self.kinds and orders[0].numel() > 2 and inspector.reader.form != "prefixed":
                    kept[found.site] = self.look(records, found.site, torch.stack(orders))
            if kept:
                yield kept

    def look(self, records: Sequence[AttentionRecord], site: str, order_OT: Tensor) -> Tensor:
        """[H, 3]: the variation in all, that of pairs of places, and that of pairs of tokens."""
        first = records[0][site]
        row = records[0].queries(first)
        words = torch.tensor([place for place, special in enumerate(row.special) if not special])
        allowed_TT = first.allowed[words][:, words] & (first.allowed[words].sum(1, keepdim=True) > 1)
        even_TT = first.uniform().shares[0][words][:, words]
        y_OHTT = torch.stack([record[site].shares[:, words][:, :, words] for record in records]) - even_TT
        y_OHC = y_OHTT[:, :, allowed_TT]
        one_C, other_C = allowed_TT.nonzero().T
        pair_OC = order_OT[:, one_C] * order_OT.shape[1] + order_OT[:, other_C]
        return variation(y_OHC, pair_OC)

    def conclude(self, kept_SH: Tensor) -> Tensor:
        """Shares of the variation in all texts together."""
        total_H, position_H, content_H = kept_SH.sum(0).unbind(-1)
        shares_H3 = torch.stack([position_H, content_H, total_H - position_H - content_H], -1)
        return shares_H3 / total_H[:, None]


def variation(y_OHC: Tensor, pair_OC: Tensor) -> Tensor:
    """[H, 3]: all sums of squares, that of means over places, and that of means over tokens of what is left.

    Means follow noise in proportion to how few numbers they are of; that is taken off.
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
    several_P = count_P > 1  # what was seen once cannot be told from noise
    # Taking off the means over places made what is left smaller by (orders - 1) / orders.
    content_H = (between_HP - noise_HP)[:, several_P].sum(1) * orders / (orders - 1)
    return torch.stack([y_OHC.square().sum((0, 2)), position_H, content_H], -1)


def _moved(ids: tuple[int, ...], order: Tensor) -> tuple[int, ...]:
    return tuple(ids[int(place)] for place in order)
