"""The contract of a metric: one figure for how well a model did on held-out examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    """What the model wrote, or the class it named, where a metric reads that."""
    examples: Sequence[Results] = ()
    """The same of each example, or window of text, by itself; empty where the objective does not tell them apart."""

    @classmethod
    def of(cls, examples: Sequence[Results]) -> Results:
        """The results of these examples together."""
        return cls(
            sum(it.nats for it in examples),
            sum(it.predicted for it in examples),
            sum(it.correct for it in examples),
            [answer for it in examples for answer in it.answers],
            examples,
        )


Resampler: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""[T, E]: how often each of E examples stands in each of T collections; gives [T] figures."""


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

    def resampler(self, results: Results) -> Resampler:
        """What intervals come from: the figures of collections in which each example stands so many times.

        `SummedMetric` has one that does not measure anew.
        """

        def figures(times_TE: NDArray[np.int64]) -> NDArray[np.float64]:
            places_E = np.arange(len(results.examples))
            chosen = (
                [results.examples[place] for place in np.repeat(places_E, times_E).tolist()] for times_E in times_TE
            )
            return np.asarray([self.measure(Results.of(examples)) for examples in chosen], dtype=np.float64)

        return figures


class SummedMetric(Metric):
    """A figure that depends on sums over examples alone, which makes intervals quick: what an example adds is known."""

    @abstractmethod
    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """[examples, sums]: what each adds to each of the sums; an example may hold any number of answers."""

    @abstractmethod
    def figure(self, sums: NDArray[np.float64]) -> float:
        """The figure that the sums come to."""

    def measure(self, results: Results) -> float:
        """The figure of all results together."""
        return self.figure(self.counts([results])[0])

    def resampler(self, results: Results) -> Resampler:
        """The figure of each collection, from its sums."""
        counts_ES = self.counts(results.examples)

        def figures(times_TE: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.asarray([self.figure(sums_S) for sums_S in times_TE @ counts_ES], dtype=np.float64)

        return figures
