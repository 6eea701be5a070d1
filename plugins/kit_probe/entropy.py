"""Attention entropy, normalised, and the effective number of keys.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

from kit import AttentionKind, AttentionMap, AttentionRecord, Options, RecordProbe, Role


class EntropyOptions(Options):
    """Options of `entropy`: there are none."""

    use: Literal["entropy"] = "entropy"


class EntropyProbe(RecordProbe):
    """Entropy over its maximum ln n, since later queries of causal attention see more keys."""

    options_type = EntropyOptions
    headline = ("entropy",)

    @property
    def quantities(self) -> Mapping[str, str]:
        """Normalised entropy and its exponential."""
        return {
            "entropy": "entropy of the weights over its maximum: 0 for one key, 1 for uniform attention",
            "effective keys": "the effective number of keys, exp(entropy)",
        }

    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The means over queries that see more than one key."""
        rows = found.has_choice
        if not rows.any():
            return None
        entropy_HQ = torch.special.entr(found.probabilities).sum(-1)  # 0 ln 0 is 0, without smoothing
        maximum_Q = found.attention_mask.sum(1).clamp(min=2).double().log()
        both_HQ2 = torch.stack([entropy_HQ / maximum_Q, entropy_HQ.exp()], -1)
        return both_HQ2[:, rows].mean(1)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """A head with near-uniform attention."""
        if values["entropy"] > 0.98:
            return Role(0.6, "attends uniformly to all it may see")
        return None
