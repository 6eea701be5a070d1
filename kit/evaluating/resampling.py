"""How sure a figure is, by drawing the examples it was measured on again.

Intervals: the bootstrap (Efron 1979; Koehn 2004). Which of two models is better: the same draws for both, and a test
that exchanges their answers at random (approximate randomization, Riezler and Maxwell 2005).
Shapes: T draws, E examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kit.contracts.metric import Metric, Results

DRAWS = 1000
"""How often examples are drawn."""
AT_ONCE = 100
"""How many draws are held in memory at once."""
SURE = 0.95
"""How much of the draws an interval holds."""
ROUNDING = 1e-9
"""Differences that are the same but for rounding."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """How two models differ in one figure, measured on the same examples."""

    first: float
    second: float
    low: float
    """Where the interval around the difference, second minus first, begins."""
    high: float
    p: float
    """How often models that do not differ would seem to differ so much."""

    @property
    def value(self) -> float:
        """Second minus first."""
        return self.second - self.first


def interval(metric: Metric, results: Results, draws: int = DRAWS, seed: int = 0) -> Interval | None:
    """Where the figure lies in 95 % of draws; None where there are not two examples that can be told apart."""
    if len(results.examples) < 2:
        return None
    figures = metric.resampler(results)
    return _bounds(np.concatenate([figures(times_TE) for times_TE in _drawn(len(results.examples), draws, seed)]))


def difference(metric: Metric, first: Results, second: Results, draws: int = DRAWS, seed: int = 0) -> Difference:
    """How the second differs from the first; their examples are the same, one by one."""
    count = len(first.examples)
    figures = metric.resampler(Results.of([*first.examples, *second.examples]))

    def both(left_TE: NDArray[np.int64], right_TE: NDArray[np.int64]) -> NDArray[np.float64]:
        """[2, T]: of collections of so many of the first's examples and so many of the second's, and the reverse."""
        turns = ((left_TE, right_TE), (right_TE, left_TE))
        return np.stack([figures(np.concatenate(turn, axis=1)) for turn in turns])

    def gaps(left_TE: NDArray[np.int64], right_TE: NDArray[np.int64]) -> NDArray[np.float64]:
        found = both(left_TE, right_TE)
        return np.asarray(found[1] - found[0])

    every = np.ones((1, count), dtype=np.int64)
    here, there = (float(value) for value in both(every, 0 * every)[:, 0])
    low, high = _bounds(np.concatenate([gaps(times_TE, 0 * times_TE) for times_TE in _drawn(count, draws, seed)]))
    seeming = 0
    for swapped_TE in _swapped(count, draws, seed):
        seeming += int((np.abs(gaps(1 - swapped_TE, swapped_TE)) >= abs(there - here) - ROUNDING).sum())
    return Difference(here, there, low, high, (seeming + 1) / (draws + 1))


def _bounds(figures_T: NDArray[np.float64]) -> Interval:
    outside = (1 - SURE) / 2
    # The draw itself, not a point between two: figures can be infinite.
    low, high = np.quantile(figures_T, [outside, 1 - outside], method="nearest")
    return float(low), float(high)


def _drawn(count: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """[T, E] each: how often each example is drawn, as many in all as there are."""
    generator = np.random.default_rng([seed, 0])
    for size in _pieces(draws):
        yield generator.multinomial(count, np.full(count, 1 / count), size=size).astype(np.int64)


def _swapped(count: int, draws: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """[T, E] each: whether the answers of the two are exchanged."""
    generator = np.random.default_rng([seed, 1])
    for size in _pieces(draws):
        yield generator.integers(0, 2, size=(size, count))


def _pieces(draws: int) -> list[int]:
    return [min(AT_ONCE, draws - start) for start in range(0, draws, AT_ONCE)]
