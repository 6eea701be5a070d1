"""Mean attention distance and direction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import NonNegativeInt
from torch import Tensor

from kit import SELF_ATTENTION, AttentionKind, AttentionMap, AttentionRecord, Options, RecordProbe, Role


class DistanceOptions(Options):
    """Options of `distance`."""

    use: Literal["distance"] = "distance"
    near: NonNegativeInt = 2
    """The largest distance that counts as near, in tokens."""


class DistanceProbe(RecordProbe):
    """The expected distance and offset of the key under the attention weights."""

    options_type = DistanceOptions
    options: DistanceOptions
    kinds = SELF_ATTENTION

    @property
    def quantities(self) -> Mapping[str, str]:
        """Four measures."""
        return {
            "distance": "the mean distance from query to key, in tokens",
            "distance ratio": "the distance over that of uniform attention: below 1 is local",
            "direction": "the mean offset from query to key, in tokens: negative is to the left",
            "near": f"the attention on tokens at most {self.options.near} away",
        }

    def measure(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """The means over queries that see more than one key."""
        rows = found.has_choice
        if not rows.any():
            return None
        offset_QK = found.offsets.double()
        distance_H = (found.probabilities * offset_QK.abs()).sum(-1)[:, rows].mean(1)
        uniform_H = (found.uniform().probabilities * offset_QK.abs()).sum(-1)[:, rows].mean(1)
        direction_H = (found.probabilities * offset_QK).sum(-1)[:, rows].mean(1)
        near_QK = offset_QK.abs() <= self.options.near
        near_H = (found.probabilities * near_QK).sum(-1)[:, rows].mean(1)
        return torch.stack([distance_H, distance_H / uniform_H, direction_H, near_H], -1)

    def role(self, values: Mapping[str, float], kind: AttentionKind) -> Role | None:
        """A local head, or one that attends far away."""
        if values["near"] > 0.8 and values["distance ratio"] < 0.7:
            return Role(0.5, f"looks at what is near, {_side(values['direction'])}")
        if values["distance ratio"] > 1.4:
            return Role(0.4, f"looks far away, {_side(values['direction'])}")
        return None


def _side(direction: float) -> str:
    if abs(direction) < 0.25:
        return "on both sides"
    return "mostly to the left" if direction < 0 else "mostly to the right"
