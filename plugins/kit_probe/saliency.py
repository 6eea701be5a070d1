"""Faithfulness of attention: its rank correlation with gradient saliency and with occlusion.

Attention is not Explanation (Jain and Wallace 2019); occlusion: Zeiler and Fergus 2014.
Shapes: H heads, P predictions, N input tokens, D width.
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
    ExampleIds,
    HeadProbe,
    Inspector,
    Options,
    SequenceProbe,
)
from kit_probe.input_saliency import Saliency, saliency

FEWEST = 3
"""Visible keys that a query needs for a rank correlation."""


class SaliencyOptions(Options):
    """Options of `saliency`."""

    use: Literal["saliency"] = "saliency"
    sequences: PositiveInt = 16
    """The maximum number of sequences; each takes a forward pass for every token, and a backward pass."""


class SaliencyProbe(HeadProbe, SequenceProbe):
    """For attention whose queries predict something: of a decoder, or of a classifier."""

    options_type = SaliencyOptions
    options: SaliencyOptions
    costly = True

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two rank correlations."""
        return {
            "gradient agreement": "rank correlation of attention with the gradient norm of a prediction by a token's "
            "embedding; 0 for none",
            "occlusion agreement": "rank correlation of attention with the fall of a prediction's log-probability "
            "where the mean embedding replaces a token's; 0 for none",
        }

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """Each sequence with its record and its saliency."""
        for row in rows[: self.options.sequences]:
            found = saliency(inspector, row)
            if found is not None:
                (record,) = inspector.run([row])
                kept = {it.site: agreement(it, found) for it in record.maps if _side(it) in found.by_gradient}
                yield {site: numbers for site, numbers in kept.items() if numbers is not None}

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """Gradient and occlusion saliency of the source and of the target."""
        found = saliency(inspector, inspector.reader.ids_of(record))
        if found is None:
            return []
        drawings = []
        for side, row in (("source", record.source), ("target", record.target)):
            if row is not None and side in found.by_gradient:
                drawings.append(Drawing(f"gradient, {side}", found.predictions, row.tokens, found.by_gradient[side]))
                drawings.append(Drawing(f"occlusion, {side}", found.predictions, row.tokens, found.by_occlusion[side]))
        return drawings


def agreement(found: AttentionMap, others: Saliency) -> Tensor | None:
    """[H, 2]: rank correlation of a head's weights with both saliencies, averaged over predictions."""
    side = _side(found)
    weights_HPN, mask_PN = found.probabilities, found.attention_mask
    if len(others.predictions) == 1:  # one for the sequence: the attention that each token gets
        weights_HPN, mask_PN = weights_HPN.mean(1, keepdim=True), mask_PN.any(0, keepdim=True)
    elif found.kind == "encoder":
        return None
    numbers = []
    for saliency_PN in (others.by_gradient[side], others.by_occlusion[side]):
        rows = [
            rank_correlation(weights_HPN[:, position, visible], saliency_PN[position, visible])
            for position, visible in enumerate(mask_PN)
            if int(visible.sum()) >= FEWEST
        ]
        if not rows:
            return None
        numbers.append(torch.stack(rows).mean(0))
    return torch.stack(numbers, -1)


def rank_correlation(one_HN: Tensor, other_N: Tensor) -> Tensor:
    """[H]: Spearman's rank correlation with average ranks for ties; 0 where all values are equal."""
    one, other = ranks(one_HN), ranks(other_N[None])
    one, other = one - one.mean(-1, keepdim=True), other - other.mean(-1, keepdim=True)
    size = one.norm(dim=-1) * other.norm(dim=-1)
    return torch.where(size > 0, (one * other).sum(-1) / size.clamp(min=1e-30), torch.zeros_like(size))


def ranks(values_HN: Tensor) -> Tensor:
    """[H, N]: the average rank of each value, from 0."""
    smaller = (values_HN[:, None] < values_HN[..., None]).sum(-1)
    equal = (values_HN[:, None] == values_HN[..., None]).sum(-1)
    return smaller + (equal - 1) / 2


def _side(found: AttentionMap) -> str:
    return "target" if found.kind == "decoder" else "source"
