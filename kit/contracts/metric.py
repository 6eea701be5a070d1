"""The contract of a metric: one figure for the quality of a model on held-out examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kit.plugin.component import Component, Options


@dataclass(frozen=True)
class Answer:
    """A generated output with its references."""

    source: str
    """The input."""
    text: str
    """The generated text, or the predicted class."""
    references: tuple[str, ...]
    """The references; any of them is correct."""


@dataclass(frozen=True)
class Results:
    """The results of a model on examples."""

    nll_sum: float
    """Sum of the negative log-likelihood (nats) of the targets over all predictions."""
    num_predictions: int
    """The number of predictions: tokens, or class labels."""
    correct: int
    """The number of correct predictions."""
    answers: Sequence[Answer] = ()
    """The generated outputs or predicted classes, if a metric reads them."""
    examples: Sequence[Results] = ()
    """The results of each example, or window of text; empty if the objective has no results by row."""

    @classmethod
    def of(cls, examples: Sequence[Results]) -> Results:
        """The sum of the results of examples."""
        return cls(
            sum(it.nll_sum for it in examples),
            sum(it.num_predictions for it in examples),
            sum(it.correct for it in examples),
            [answer for it in examples for answer in it.answers],
            examples,
        )


Resampler: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.float64]]
"""Maps counts [T, E], how often each of E examples is in each of T resamples, to figures [T]."""


class Metric(Component, ABC):
    """Computes a figure from results; built with its options alone."""

    kind = "metric"

    reads_answers: ClassVar[bool] = False
    """Whether it needs generated outputs, which take time."""
    lower_is_better: ClassVar[bool] = True
    """Whether a lower figure is better."""
    is_fraction: ClassVar[bool] = False
    """Whether the figure is a fraction, displayed in per cent."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def label(self) -> str:
        """The displayed name."""
        return self.name().replace("_", " ")

    @abstractmethod
    def measure(self, results: Results) -> float:
        """The figure."""

    def signature(self) -> str:
        """The exact definition, for comparison with other work (as sacrebleu's); empty if the name is enough."""
        return ""

    def resampler(self, results: Results) -> Resampler:
        """Returns the function that computes the figures of bootstrap resamples.

        `SummedMetric` has a faster one, from sums.
        """

        def figures(times_TE: NDArray[np.int64]) -> NDArray[np.float64]:
            indices_E = np.arange(len(results.examples))
            chosen = (
                [results.examples[index] for index in np.repeat(indices_E, times_E).tolist()] for times_E in times_TE
            )
            return np.asarray([self.measure(Results.of(examples)) for examples in chosen], dtype=np.float64)

        return figures


class SummedMetric(Metric):
    """A metric that is a function of sums over examples, so that resampling needs no new measurement."""

    @abstractmethod
    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """[examples, sums]: the addends of each example; an example may have any number of answers."""

    @abstractmethod
    def figure(self, sums: NDArray[np.float64]) -> float:
        """The figure of these sums."""

    def measure(self, results: Results) -> float:
        """The figure of all results together."""
        return self.figure(self.counts([results])[0])

    def resampler(self, results: Results) -> Resampler:
        """The figures of resamples, from their sums."""
        counts_ES = self.counts(results.examples)

        def figures(times_TE: NDArray[np.int64]) -> NDArray[np.float64]:
            return np.asarray([self.figure(sums_S) for sums_S in times_TE @ counts_ES], dtype=np.float64)

        return figures
