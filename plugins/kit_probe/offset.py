"""Positional heads: attention at a fixed offset, such as the previous token (Voita et al. 2019, section 5.2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import SELF_ATTENTION, AttentionKind, AttentionMap, AttentionRecord, Options, RecordProbe, Role

NAMES = {-1: "previous", 0: "itself", 1: "next"}
WORDS = {-1: "the token before", 0: "the token itself", 1: "the token after"}


class OffsetOptions(Options):
    """Options of `offset`."""

    use: Literal["offset"] = "offset"
    offsets: list[int] = Field(default=[-1, 0, 1], min_length=1)
    """The offsets: -1 is the token before, 1 the one after."""


class OffsetProbe(RecordProbe):
    """The weight at each offset, and how often it is the largest: from 90 % on a head is positional."""

    options_type = OffsetOptions
    options: OffsetOptions
    kinds = SELF_ATTENTION

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two measures for each offset."""
        found = {}
        for offset in self.options.offsets:
            found[_name(offset)] = f"the mean weight of {_words(offset)}, over queries that see it"
            found[f"{_name(offset)} first"] = f"how often {_words(offset)} has the largest weight of all"
        return found

    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The means over queries that see more than one key, one of them at the offset."""
        chosen, offset_QK, p_HQK = found.has_choice, found.offsets, found.probabilities
        largest_HQK = (p_HQK == p_HQK.amax(-1, keepdim=True)) & found.attention_mask
        first_HQK = largest_HQK.double() / largest_HQK.sum(-1, keepdim=True).clamp(min=1)  # ties share the first rank
        numbers = []
        for offset in self.options.offsets:
            there_QK = (offset_QK == offset) & found.attention_mask
            rows = there_QK.any(1) & chosen
            numbers += [(weights * there_QK).sum(-1)[:, rows].mean(1) for weights in (p_HQK, first_HQK)]
        return torch.stack(numbers, -1)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """A positional head."""
        best = max(self.options.offsets, key=lambda offset: _or_zero(values[f"{_name(offset)} first"]))
        # The largest of many small weights is a preference, not a role.
        positional = _or_zero(values[f"{_name(best)} first"]) >= 0.9 and values[_name(best)] >= 0.5
        return Role(0.5 + values[_name(best)] / 2, f"looks at {_words(best)}") if positional else None


def _name(offset: int) -> str:
    return NAMES.get(offset, f"offset {offset:+d}")


def _words(offset: int) -> str:
    return WORDS.get(offset, f"the token {abs(offset)} {'before' if offset < 0 else 'after'}")


def _or_zero(value: float) -> float:
    return 0.0 if value != value else value
