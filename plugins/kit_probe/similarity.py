"""Which heads attend alike: the root of the Jensen-Shannon divergence, a distance (Endres and Schindelin 2003).

Shapes: A heads of all layers, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import AttentionRecord, Kind, Options, PairProbe
from kit_probe.rows import choosing


class SimilarityOptions(Options):
    """Options of `similarity`."""

    use: Literal["similarity"] = "similarity"
    threshold: float = Field(default=0.3, gt=0.0)
    """Heads whose groups are further apart than this, in the mean, stay apart; the most there can be is 0.833."""


class SimilarityProbe(PairProbe):
    """Divergence is averaged over queries, then over texts, so that long texts count no more than short ones."""

    options_type = SimilarityOptions
    options: SimilarityOptions

    def compare(self, record: AttentionRecord) -> Mapping[Kind, Tensor]:
        """The divergence of each two heads, in nats: 0 for the same weights, ln 2 for none in common."""
        kinds: list[Kind] = ["encoder", "decoder", "cross"]
        found: dict[Kind, Tensor] = {}
        for kind in kinds:
            maps = record.of(kind)
            rows = [choosing(each) for each in maps]
            if maps and rows[0].any():
                found[kind] = divergence(torch.cat([each.shares for each in maps])[:, rows[0]])
        return found

    def distance(self, mean_AA: Tensor) -> Tensor:
        """The root."""
        return mean_AA.clamp(min=0).sqrt()

    def groups(self, distance_AA: Tensor) -> list[int]:
        """Joins the two nearest groups, by the mean distance of their heads, until none are near enough."""
        members = [[number] for number in range(len(distance_AA))]
        while len(members) > 1:
            pairs = [(i, j) for i in range(len(members)) for j in range(i)]
            far = [float(distance_AA[members[i]][:, members[j]].mean()) for i, j in pairs]
            nearest = min(range(len(pairs)), key=far.__getitem__)
            if far[nearest] > self.options.threshold:
                break
            i, j = pairs[nearest]
            members[j] += members.pop(i)
        group = {head: number for number, heads in enumerate(sorted(members, key=min)) for head in heads}
        return [group[head] for head in range(len(distance_AA))]


def divergence(p_AQK: Tensor) -> Tensor:
    """[A, A]: the Jensen-Shannon divergence of each two heads, in the mean over queries."""
    entropy_AQ = torch.special.entr(p_AQK).sum(-1)
    rows = []
    for p_QK, entropy_Q in zip(p_AQK, entropy_AQ, strict=True):
        middle_AQ = torch.special.entr((p_AQK + p_QK) / 2).sum(-1)
        rows.append((middle_AQ - (entropy_AQ + entropy_Q) / 2).mean(-1))
    return torch.stack(rows)
