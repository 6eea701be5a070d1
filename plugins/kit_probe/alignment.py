"""Agreement of cross-attention with a statistical word alignment.

Shapes: H heads, Q queries, S source tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import Tensor

from kit import AttentionKind, AttentionRecord, Drawing, ExampleIds, HeadProbe, Inspector, Options, Role, SequenceProbe
from kit_probe.ibm_aligner import IbmAligner


class AlignmentOptions(Options):
    """Options of `alignment`."""

    use: Literal["alignment"] = "alignment"
    rounds: PositiveInt = 10
    """Iterations of expectation-maximisation of the alignment model."""
    tension: NonNegativeFloat = Field(default=4.0)
    """The strength of the diagonal prior; 0 for none."""


class AlignmentProbe(HeadProbe, SequenceProbe):
    """The query that predicts a token is one position before it: its input is the token before."""

    options_type = AlignmentOptions
    headline = ("alignment",)
    options: AlignmentOptions
    kinds = frozenset({"cross"})

    @property
    def quantities(self) -> Mapping[str, str]:
        """Agreement and weight."""
        return {
            "alignment": "how often the source token with the largest weight is the one that a statistical alignment "
            "gives for the predicted token",
            "aligned weight": "the mean weight of that source token",
        }

    def gather(self, inspector: Inspector, rows: Sequence[ExampleIds]) -> Iterator[Mapping[str, Tensor]]:
        """Trains the alignment model on these pairs, then compares each pair with it."""
        pairs = [(row.source, row.target or ()) for row in rows]
        if not inspector.reader.generates or not any(target for _, target in pairs):
            return
        aligner = IbmAligner(self.options.tension)
        aligner.train(pairs, self.options.rounds)
        for record, (source, target) in zip(inspector.run_batches(rows), pairs, strict=True):
            if source and target and record.of("cross"):
                yield {it.site: agreement(it.probabilities, aligner.align(source, target)) for it in record.of("cross")}

    def draw(self, record: AttentionRecord, inspector: Inspector) -> list[Drawing]:
        """The mean over the heads of each layer, its rows labelled with the predicted tokens."""
        if record.source is None or record.target is None or record.target.next_tokens is None:
            return []
        predicted, source = record.target.next_tokens, record.source.tokens
        return [
            Drawing(f"alignment, layer {found.layer}", predicted, source, found.probabilities.mean(0))
            for found in record.of("cross")
        ]

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """A head that translates token by token."""
        if values["alignment"] > 0.5:
            return Role(0.4 + values["alignment"] / 2, "looks at the source token of the predicted token")
        return None


def agreement(shares_HQS: Tensor, gold: Sequence[int | None]) -> Tensor:
    """[H, 2]: how often the largest weight is on the aligned token, and its weight; gold: for each predicted token.

    Keys with equal largest weights share the point. Tokens aligned to the null token do not count.
    """
    queries = torch.tensor([query for query, position in enumerate(gold) if position is not None], dtype=torch.long)
    positions = torch.tensor([position for position in gold if position is not None], dtype=torch.long)
    chosen_HQS = shares_HQS[:, queries]
    largest_HQS = (chosen_HQS == chosen_HQS.amax(-1, keepdim=True)).double()
    points_HQS = largest_HQS / largest_HQS.sum(-1, keepdim=True)
    each = torch.arange(len(queries))
    return torch.stack([weights[:, each, positions].mean(1) for weights in (points_HQS, chosen_HQS)], -1)
