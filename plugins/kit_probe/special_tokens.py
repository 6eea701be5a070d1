"""Attention sinks: the attention on special tokens and on the first token (Clark et al. 2019; Xiao et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionKind, AttentionMap, AttentionRecord, Options, RecordProbe, Role


class SpecialTokensOptions(Options):
    """Options of `special_tokens`: there are none."""

    use: Literal["special_tokens"] = "special_tokens"


class SpecialTokensProbe(RecordProbe):
    """The total weight of the start, end, mask and separator tokens, and that of the first token."""

    options_type = SpecialTokensOptions

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two measures."""
        return {
            "special": "the attention on special tokens, such as the start and the end",
            "first": "the attention on the first token, special or not",
        }

    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The means over queries that see more than one key."""
        rows = found.has_choice
        if not rows.any():
            return None
        special_K = torch.tensor(record.keys(found).special)
        on_special_HQ = found.probabilities[:, :, special_K].sum(-1)
        both_HQ2 = torch.stack([on_special_HQ, found.probabilities[:, :, 0]], -1)
        return both_HQ2[:, rows].mean(1)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """An attention sink."""
        most = max(values["special"], values["first"])
        if most < 0.7:
            return None
        where = "the first token" if values["first"] >= values["special"] else "special tokens"
        return Role(most, f"rests on {where} (a sink)")
