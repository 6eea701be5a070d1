"""Which source token each written token comes from: cross attention held against a statistical alignment.

Shapes: H heads, Q queries, S source tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor

from kit import AttentionRecord, Drawing, HeadProbe, Ids, Inspector, Kind, Options, Role, TextProbe
from kit_probe.aligning import Aligner


class AlignmentOptions(Options):
    """Options of `alignment`."""

    use: Literal["alignment"] = "alignment"
    rounds: PositiveInt = 10
    """How many times the alignment model goes through the texts."""
    tension: NonNegativeFloat = Field(default=4.0)
    """How strongly it expects both texts to go in step; 0 for not at all."""


class AlignmentProbe(HeadProbe, TextProbe):
    """The query that writes a token stands one place before it: it has read the token before, and chooses this one."""

    options_type = AlignmentOptions
    headline = ("alignment",)
    options: AlignmentOptions
    kinds = frozenset({"cross"})

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two numbers."""
        return {
            "alignment": "how often the source token with the largest weight is the one that a statistical alignment "
            "gives for the token that is written",
            "aligned weight": "the weight of that source token, in the mean",
        }

    def gather(self, inspector: Inspector, rows: Sequence[Ids]) -> Iterator[Mapping[str, Tensor]]:
        """The alignment model learns from these texts; then each is compared with it."""
        pairs = [(row.source, row.target or ()) for row in rows]
        if not inspector.reader.writes or not any(target for _, target in pairs):
            return
        aligner = Aligner(self.options.tension)
        aligner.train(pairs, self.options.rounds)
        for record, (source, target) in zip(inspector.stream(rows), pairs, strict=True):
            if source and target and record.of("cross"):
                yield {it.site: agreement(it.shares, aligner.align(source, target)) for it in record.of("cross")}

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """The mean over heads of each layer, beside the tokens that were written rather than those that were read."""
        if record.source is None or record.target is None or record.target.following is None:
            return []
        written, source = record.target.following, record.source.tokens
        return [
            Drawing(f"alignment, layer {found.layer}", written, source, found.shares.mean(0))
            for found in record.of("cross")
        ]

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """A head that translates token by token."""
        if values["alignment"] > 0.5:
            return Role(0.4 + values["alignment"] / 2, "looks at the source token that is being written")
        return None


def agreement(shares_HQS: Tensor, gold: Sequence[int | None]) -> Tensor:
    """[H, 2]: how often the largest weight is at the aligned token, and the weight there; gold: of each written token.

    Keys that share the largest weight share the point. Written tokens that come from nowhere do not count.
    """
    queries = torch.tensor([query for query, place in enumerate(gold) if place is not None], dtype=torch.long)
    places = torch.tensor([place for place in gold if place is not None], dtype=torch.long)
    chosen_HQS = shares_HQS[:, queries]
    largest_HQS = (chosen_HQS == chosen_HQS.amax(-1, keepdim=True)).double()
    points_HQS = largest_HQS / largest_HQS.sum(-1, keepdim=True)
    each = torch.arange(len(queries))
    return torch.stack([weights[:, each, places].mean(1) for weights in (points_HQS, chosen_HQS)], -1)
