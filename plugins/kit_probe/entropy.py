"""How widely a head spreads its attention: the entropy of its weights, and the number of keys that comes to.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionMap, AttentionRecord, Kind, Options, RecordProbe, Role
from kit_probe.rows import choosing, mean_over


class EntropyOptions(Options):
    """Options of `entropy`: there are none."""

    use: Literal["entropy"] = "entropy"


class EntropyProbe(RecordProbe):
    """Entropy as a share of the most it could be, since causal queries see more keys the later they stand."""

    options_type = EntropyOptions
    headline = ("entropy",)

    @property
    def quantities(self) -> Mapping[str, str]:
        """Two ways to say the same."""
        return {
            "entropy": "entropy of the weights over the most it could be: 0 for one key, 1 for all keys the same",
            "effective keys": "how many keys attention is spread over, as exp(entropy)",
        }

    def look(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """Mean over queries that have a choice."""
        rows = choosing(found)
        if not rows.any():
            return None
        entropy_HQ = torch.special.entr(found.shares).sum(-1)  # 0 ln 0 is 0, without smoothing
        most_Q = found.allowed.sum(1).clamp(min=2).double().log()
        return torch.stack([mean_over(entropy_HQ / most_Q, rows), mean_over(entropy_HQ.exp(), rows)], -1)

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """A head that spreads over everything."""
        if values["entropy"] > 0.98:
            return Role(0.6, "spreads its attention evenly over all it may see")
        return None
