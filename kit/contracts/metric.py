"""The contract of a metric: one figure for how well a model did on held-out examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from kit.component import Component, Options


@dataclass(frozen=True)
class Answer:
    """What a model wrote for one example."""

    source: str
    """What it was given."""
    text: str
    """What it wrote."""
    references: tuple[str, ...]
    """What would have been right; any of them."""


@dataclass(frozen=True)
class Results:
    """What a metric sees."""

    nats: float
    """The surprise at the right answers, summed over all predictions."""
    predicted: int
    """How many predictions there were: tokens, or classes of texts."""
    correct: int
    """How many of them were right."""
    answers: Sequence[Answer] = ()
    """What the model wrote, where a metric reads that."""


class Metric(Component, ABC):
    """Measures; built with its options alone."""

    kind = "metric"

    reads_answers: ClassVar[bool] = False
    """Whether the model has to write its answers for it, which takes time."""
    lower_is_better: ClassVar[bool] = True
    """Which way is up."""
    is_share: ClassVar[bool] = False
    """Whether the figure is a share, shown in per cent."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def label(self) -> str:
        """What people read beside the figure."""
        return self.part_name().replace("_", " ")

    @abstractmethod
    def measure(self, results: Results) -> float:
        """The figure."""

    def signature(self) -> str:
        """How exactly it was measured, for those who want to compare; empty where the name says it all."""
        return ""
