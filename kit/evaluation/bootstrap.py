"""Bootstrap intervals (Efron 1979; Koehn 2004) and approximate randomization tests (Riezler and Maxwell 2005).

Shapes: T resamples, E examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kit.contracts.metric import Metric, Results

RESAMPLES = 1000
"""The number of bootstrap resamples."""
CHUNK = 100
"""How many resamples are computed at once."""
CONFIDENCE = 0.95
"""The confidence level of intervals."""
ROUNDING = 1e-9
"""Differences below this are rounding errors."""

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """The difference of two models in one metric, evaluated on the same examples."""

    first: float
    second: float
    low: float
    """The lower end of the confidence interval of the difference, second minus first."""
    high: float
    p: float
    """The p-value: how often models that do not differ show a difference of this size."""

    @property
    def value(self) -> float:
        """Second minus first."""
        return self.second - self.first


def interval(metric: Metric, results: Results, resamples: int = RESAMPLES, seed: int = 0) -> Interval | None:
    """Computes the percentile interval of a metric; None if there are fewer than two examples."""
    if len(results.examples) < 2:
        return None
    figures = metric.resampler(results)
    return _bounds(
        np.concatenate([figures(times_TE) for times_TE in _resample_counts(len(results.examples), resamples, seed)])
    )


def difference(
    metric: Metric, first: Results, second: Results, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Computes the paired difference of two results on the same examples, with its interval and p-value."""
    count = len(first.examples)
    figures = metric.resampler(Results.of([*first.examples, *second.examples]))

    def both(left_TE: NDArray[np.int64], right_TE: NDArray[np.int64]) -> NDArray[np.float64]:
        """Returns the metric, [2, T], of examples drawn from both with these counts, and with the counts swapped."""
        orders = ((left_TE, right_TE), (right_TE, left_TE))
        return np.stack([figures(np.concatenate(order, axis=1)) for order in orders])

    def gaps(left_TE: NDArray[np.int64], right_TE: NDArray[np.int64]) -> NDArray[np.float64]:
        found = both(left_TE, right_TE)
        return np.asarray(found[1] - found[0])

    every = np.ones((1, count), dtype=np.int64)
    here, there = (float(value) for value in both(every, 0 * every)[:, 0])
    low, high = _bounds(
        np.concatenate([gaps(times_TE, 0 * times_TE) for times_TE in _resample_counts(count, resamples, seed)])
    )
    as_large = 0
    for swapped_TE in _permutations(count, resamples, seed):
        as_large += int((np.abs(gaps(1 - swapped_TE, swapped_TE)) >= abs(there - here) - ROUNDING).sum())
    return Difference(here, there, low, high, (as_large + 1) / (resamples + 1))


def _bounds(figures_T: NDArray[np.float64]) -> Interval:
    outside = (1 - CONFIDENCE) / 2
    # A value of a resample, not interpolated: values can be infinite.
    low, high = np.quantile(figures_T, [outside, 1 - outside], method="nearest")
    return float(low), float(high)


def _resample_counts(count: int, resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yields how often each example is drawn in each resample, [T, E] at a time."""
    generator = np.random.default_rng([seed, 0])
    for size in _chunks(resamples):
        yield generator.multinomial(count, np.full(count, 1 / count), size=size).astype(np.int64)


def _permutations(count: int, resamples: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yields whether the results of the two models are swapped in each permutation, [T, E] at a time."""
    generator = np.random.default_rng([seed, 1])
    for size in _chunks(resamples):
        yield generator.integers(0, 2, size=(size, count))


def _chunks(resamples: int) -> list[int]:
    return [min(CHUNK, resamples - start) for start in range(0, resamples, CHUNK)]
