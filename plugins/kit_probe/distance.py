"""How far a head looks, and to which side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import NonNegativeInt
from torch import Tensor

from kit import ITS_OWN_TEXT, AttentionMap, AttentionRecord, Kind, Options, RecordProbe, Role
from kit_probe.rows import choosing, mean_over, offsets


class DistanceOptions(Options):
    """Options of `distance`."""

    use: Literal["distance"] = "distance"
    near: NonNegativeInt = 2
    """How many tokens away, at the most, counts as near."""


class DistanceProbe(RecordProbe):
    """The mean distance of what is looked at, weighed by how much; and its direction."""

    options_type = DistanceOptions
    options: DistanceOptions
    kinds = ITS_OWN_TEXT

    @property
    def quantities(self) -> Mapping[str, str]:
        """Four numbers."""
        return {
            "distance": "how many tokens away a head looks, in the mean",
            "distance ratio": "how far a head looks over how far even attention looks: below 1 is local",
            "direction": "how many tokens to the right a head looks, in the mean; to the left is negative",
            "near": f"the share of attention on tokens at most {self.options.near} away",
        }

    def look(self, found: AttentionMap, record: AttentionRecord) -> Tensor | None:
        """Mean over queries that have a choice."""
        rows = choosing(found)
        if not rows.any():
            return None
        offset_QK = offsets(found).double()
        distance_H = mean_over((found.shares * offset_QK.abs()).sum(-1), rows)
        even_H = mean_over((found.uniform().shares * offset_QK.abs()).sum(-1), rows)
        direction_H = mean_over((found.shares * offset_QK).sum(-1), rows)
        near_H = mean_over((found.shares * (offset_QK.abs() <= self.options.near)).sum(-1), rows)
        return torch.stack([distance_H, distance_H / even_H, direction_H, near_H], -1)

    def role(self, values: Mapping[str, float], kind: Kind) -> Role | None:
        """A head that looks around itself, or far away."""
        if values["near"] > 0.8 and values["distance ratio"] < 0.7:
            return Role(0.5, f"looks at what is near, {_side(values['direction'])}")
        if values["distance ratio"] > 1.4:
            return Role(0.4, f"looks far away, {_side(values['direction'])}")
        return None


def _side(direction: float) -> str:
    if abs(direction) < 0.25:
        return "on both sides"
    return "mostly to the left" if direction < 0 else "mostly to the right"
