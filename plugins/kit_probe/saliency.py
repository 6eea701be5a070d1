"""Whether attention tells what the model goes by: held against slopes, and against hiding tokens one by one.

Attention is not Explanation (Jain and Wallace 2019); occlusion: Zeiler and Fergus 2014.
Shapes: H heads, P predictions, N tokens that are read, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import (
    AttentionMap,
    AttentionRecord,
    Drawing,
    HeadProbe,
    Ids,
    Inspector,
    Options,
    Saliency,
    TextProbe,
    saliency,
)

FEWEST = 3
"""Keys that a query must see for an order of them to mean something."""


class SaliencyOptions(Options):
    """Options of `saliency`."""

    use: Literal["saliency"] = "saliency"
    texts: PositiveInt = 16
    """The most texts: each is read once for each of its tokens, and once more backwards."""


class SaliencyProbe(HeadProbe, TextProbe):
    """For attention of queries that predict something: of a decoder, or of a model that tells a class."""

    options_type = SaliencyOptions
    options: SaliencyOptions
    costly = True

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two rank correlations."""
        return {
            "agrees with slopes": "rank correlation of weights with how strongly a prediction depends on a token's "
            "vector; 0 for none",
            "agrees with hiding": "rank correlation of weights with how much likelier a prediction is with a token "
            "than with the mean token in its place; 0 for none",
        }

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """Text by text."""
        for row in rows[: self.options.texts]:
            found = saliency(inspector, row)
            if found is not None:
                (record,) = inspector.look([row])
                kept = {it.site: compared(it, found) for it in record.maps if _side(it) in found.by_slope}
                yield {site: numbers for site, numbers in kept.items() if numbers is not None}

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """Both, for each side that is read."""
        found = saliency(inspector, inspector.reader.ids_of(record))
        if found is None:
            return []
        pictures = []
        for side, row in (("source", record.source), ("target", record.target)):
            if row is not None and side in found.by_slope:
                written = found.predictions
                pictures.append(Drawing(f"slopes, {side}", written, row.tokens, found.by_slope[side]))
                pictures.append(Drawing(f"hiding, {side}", written, row.tokens, found.by_hiding[side]))
        return pictures


def compared(found: AttentionMap, others: Saliency) -> Tensor | None:
    """[H, 2]: rank correlation of a head's weights with both, in the mean over predictions."""
    side = _side(found)
    weights_HPN, allowed_PN = found.shares, found.allowed
    if len(others.predictions) == 1:  # of the whole text: by how much each token is looked at
        weights_HPN, allowed_PN = weights_HPN.mean(1, keepdim=True), allowed_PN.any(0, keepdim=True)
    elif found.kind == "encoder":
        return None
    numbers = []
    for saliency_PN in (others.by_slope[side], others.by_hiding[side]):
        rows = [
            rank_correlation(weights_HPN[:, place, seen], saliency_PN[place, seen])
            for place, seen in enumerate(allowed_PN)
            if int(seen.sum()) >= FEWEST
        ]
        if not rows:
            return None
        numbers.append(torch.stack(rows).mean(0))
    return torch.stack(numbers, -1)


def rank_correlation(one_HN: Tensor, other_N: Tensor) -> Tensor:
    """[H]: Spearman's; equal numbers share their ranks, and where all are equal it is 0."""
    one, other = ranks(one_HN), ranks(other_N[None])
    one, other = one - one.mean(-1, keepdim=True), other - other.mean(-1, keepdim=True)
    size = one.norm(dim=-1) * other.norm(dim=-1)
    return torch.where(size > 0, (one * other).sum(-1) / size.clamp(min=1e-30), torch.zeros_like(size))


def ranks(values_HN: Tensor) -> Tensor:
    """[H, N]: how many numbers are smaller, those that are equal counted half."""
    smaller = (values_HN[:, None] < values_HN[..., None]).sum(-1)
    equal = (values_HN[:, None] == values_HN[..., None]).sum(-1)
    return smaller + (equal - 1) / 2


def _side(found: AttentionMap) -> str:
    return "target" if found.kind == "decoder" else "source"
