"""How much attention rests on tokens that stand for no text: sinks (Clark et al. 2019; Xiao et al. 2024)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Kind, Options, RecordProbe, Role
from kit_probe.rows import choosing, mean_over


class SpecialOptions(Options):
    """Options of `special`: there are none."""

    use: Literal["special"] = "special"


class SpecialProbe(RecordProbe):
    """The weight of start, end, mask and separator tokens together, and of the first token of the text."""

    options_type = SpecialOptions

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two numbers."""
        return {
            "special": "the share of attention on tokens that stand for no text, such as the start and the end",
            "first": "the share of attention on the first token, whatever it is",
        }

    def look(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """Mean over queries that have a choice."""
        rows = choosing(found)
        if not rows.any():
            return None
        special_K = torch.tensor(record.keys(found).special)
        on_special_HQ = found.shares[:, :, special_K].sum(-1)
        return torch.stack([mean_over(on_special_HQ, rows), mean_over(found.shares[:, :, 0], rows)], -1)

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """A head that rests there."""
        most = max(values["special"], values["first"])
        if most < 0.7:
            return None
        where = "the first token" if values["first"] >= values["special"] else "tokens that stand for no text"
        return Role(most, f"rests on {where} (a sink)")
