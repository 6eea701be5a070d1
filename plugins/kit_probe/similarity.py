"""Head similarity: the square root of the Jensen-Shannon divergence, a metric (Endres and Schindelin 2003).

Shapes: A heads of all layers, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import AttentionKind, AttentionRecord, Options, PairProbe


class SimilarityOptions(Options):
    """Options of `similarity`."""

    use: Literal["similarity"] = "similarity"
    threshold: float = Field(default=0.3, gt=0.0)
    """The largest mean distance at which two clusters are merged; the maximum of the metric is 0.833."""


class SimilarityProbe(PairProbe):
    """The divergence is averaged over queries, then over sequences, so that long ones weigh no more."""

    options_type = SimilarityOptions
    options: SimilarityOptions

    def compare(self, record: AttentionRecord) -> Mapping[AttentionKind, Tensor]:
        """The divergence of each pair of heads in nats: 0 for equal weights, ln 2 for disjoint ones."""
        kinds: list[AttentionKind] = ["encoder", "decoder", "cross"]
        found: dict[AttentionKind, Tensor] = {}
        for kind in kinds:
            maps = record.of(kind)
            rows = [each.has_choice for each in maps]
            if maps and rows[0].any():
                found[kind] = divergence(torch.cat([each.probabilities for each in maps])[:, rows[0]])
        return found

    def distance(self, mean_AA: Tensor) -> Tensor:
        """The square root of the mean divergence."""
        return mean_AA.clamp(min=0).sqrt()

    def clusters(self, distance_AA: Tensor) -> list[int]:
        """Average-linkage agglomerative clustering up to the threshold."""
        members = [[number] for number in range(len(distance_AA))]
        while len(members) > 1:
            pairs = [(i, j) for i in range(len(members)) for j in range(i)]
            far = [float(distance_AA[members[i]][:, members[j]].mean()) for i, j in pairs]
            nearest = min(range(len(pairs)), key=far.__getitem__)
            if far[nearest] > self.options.threshold:
                break
            i, j = pairs[nearest]
            members[j] += members.pop(i)
        cluster = {head: number for number, heads in enumerate(sorted(members, key=min)) for head in heads}
        return [cluster[head] for head in range(len(distance_AA))]


def divergence(p_AQK: Tensor) -> Tensor:
    """[A, A]: the Jensen-Shannon divergence of each pair of heads, averaged over queries."""
    entropy_AQ = torch.special.entr(p_AQK).sum(-1)
    rows = []
    for p_QK, entropy_Q in zip(p_AQK, entropy_AQ, strict=True):
        middle_AQ = torch.special.entr((p_AQK + p_QK) / 2).sum(-1)
        rows.append((middle_AQ - (entropy_AQ + entropy_Q) / 2).mean(-1))
    return torch.stack(rows)
