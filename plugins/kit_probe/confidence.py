"""Confidence: the largest attention weight of a query (Voita et al. 2019, Analyzing Multi-Head Self-Attention).

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Options, RecordProbe, Special


class ConfidenceOptions(Options):
    """Options of `confidence`."""

    use: Literal["confidence"] = "confidence"
    ignore: Literal["end", "special", "none"] = "end"
    """Keys that are excluded: the end token (the paper), all special tokens, or none. The weights of the other keys
    are not renormalised."""


class ConfidenceProbe(RecordProbe):
    """The largest weight of each query, excluding the end token."""

    options_type = ConfidenceOptions
    headline = ("confidence",)
    options: ConfidenceOptions

    @property
    def quantities(self) -> Mapping[str, str]:
        """One measure."""
        return {"confidence": "the mean over queries of the largest weight; the end token is excluded"}

    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The mean over queries that see more than one key."""
        rows = found.has_choice
        if not rows.any():
            return None
        keys = record.keys(found)
        ignored = {
            "end": [number == Special.END for number in keys.ids],
            "special": list(keys.special),
            "none": [False] * len(keys),
        }[self.options.ignore]
        largest_HQ = found.probabilities.masked_fill(torch.tensor(ignored), 0.0).amax(-1)
        return largest_HQ[:, rows].mean(1)[:, None]
