"""How sure a head is of one key: its largest weight (Voita et al. 2019, Analyzing Multi-Head Self-Attention).

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Options, RecordProbe, Special
from kit_probe.rows import choosing, mean_over


class ConfidenceOptions(Options):
    """Options of `confidence`."""

    use: Literal["confidence"] = "confidence"
    ignore: Literal["end", "special", "none"] = "end"
    """Keys that do not count as what a head is sure of: the end token (the paper), all tokens that stand for no text,
    or none. Their weight is not shared out among the others."""


class ConfidenceProbe(RecordProbe):
    """The largest weight of each query, the end token aside."""

    options_type = ConfidenceOptions
    headline = ("confidence",)
    options: ConfidenceOptions

    @property
    def quantities(self) -> Mapping[str, str]:
        """One number."""
        return {"confidence": "the largest weight of a query, in the mean; the end token is left out"}

    def look(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """Mean over queries that have a choice."""
        rows = choosing(found)
        if not rows.any():
            return None
        keys = record.keys(found)
        ignored = {
            "end": [number == Special.END for number in keys.ids],
            "special": list(keys.special),
            "none": [False] * len(keys),
        }[self.options.ignore]
        largest_HQ = found.shares.masked_fill(torch.tensor(ignored), 0.0).amax(-1)
        return mean_over(largest_HQ, rows)[:, None]
