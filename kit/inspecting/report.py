"""What probes found: a card for each head, and how far heads are apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from kit.inspecting.record import Kind


@dataclass(frozen=True)
class Estimate:
    """One number of one head; None stands for what cannot be told."""

    value: float | None
    low: float | None = None
    """Where the number would be with other texts, at the least."""
    high: float | None = None
    """And at the most."""
    even: float | None = None
    """What it would be if the head gave all keys the same."""
    untrained: float | None = None
    """What it is in a model of the same recipe that has not been trained."""


@dataclass(frozen=True)
class HeadCard:
    """One head, measured."""

    site: str
    kind: Kind
    layer: int
    head: int
    estimates: Mapping[str, Estimate]
    """Its numbers, by name."""
    role: str
    """What it seems to be there for, in plain words."""

    @property
    def name(self) -> str:
        """A short name: `decoder.0.cross_attention:3`."""
        return f"{self.site}:{self.head}"


@dataclass(frozen=True)
class HeadDistances:
    """How far apart all heads of one kind of attention are."""

    probe: str
    """By which measure."""
    kind: Kind
    heads: tuple[tuple[str, int], ...]
    """Site and number of each."""
    distance: Tensor
    """[heads, heads], the mean over texts."""
    groups: tuple[int, ...]
    """Which group each head is in."""


@dataclass(frozen=True)
class Report:
    """Everything that was measured."""

    heads: tuple[HeadCard, ...]
    distances: tuple[HeadDistances, ...]
    texts: int
    """How many texts it was measured on."""
    meanings: Mapping[str, str]
    """What each number is, in a sentence."""

    def plain(self) -> dict[str, Any]:
        """The same as data for a program."""
        return {
            "texts": self.texts,
            "meanings": dict(self.meanings),
            "heads": [
                {
                    "site": card.site,
                    "kind": card.kind,
                    "layer": card.layer,
                    "head": card.head,
                    "role": card.role,
                    "numbers": {name: vars(estimate) for name, estimate in card.estimates.items()},
                }
                for card in self.heads
            ],
            "distances": [
                {
                    "probe": found.probe,
                    "kind": found.kind,
                    "heads": [f"{site}:{head}" for site, head in found.heads],
                    "distance": found.distance.tolist(),
                    "groups": list(found.groups),
                }
                for found in self.distances
            ],
        }
