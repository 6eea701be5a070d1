"""Means with intervals and paired tests for a few seeds: Student's t, written out so that nothing need be installed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean and how sure it is."""

    mean: float
    half: float | None
    """Half of the 95 % interval; None where there is one value only."""
    count: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """From, to."""
        return None if self.half is None else (self.mean - self.half, self.mean + self.half)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean with its 95 % interval (Student's t)."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, count)
    return Estimate(mean, quantile(0.5 + CONFIDENCE / 2, count - 1) * _error(values, mean), count)


def paired_p(differences: Sequence[float]) -> float | None:
    """How likely differences as large are if there is none (two-sided paired t-test); None with fewer than two."""
    count = len(differences)
    if count < 2:
        return None
    mean = math.fsum(differences) / count
    error = _error(differences, mean)
    # Differences that are all the same are told apart from rounding by their size.
    if error <= 1e-12 * max(abs(mean), 1e-300):
        return 1.0 if abs(mean) < 1e-12 else 0.0
    return 2 * (1 - distribution(abs(mean) / error, count - 1))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Probabilities adjusted for there being several tests (Holm 1979)."""
    order = sorted((value, index) for index, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    least = 0.0
    for rank, (value, index) in enumerate(order):
        least = max(least, min(1.0, value * (len(order) - rank)))
        adjusted[index] = least
    return adjusted


def picked_p(values: Sequence[float | None]) -> float | None:
    """How likely it is by chance that any of several comes out this far ahead of all others; None where not known.

    values: the two-sided probabilities of the one that came out best against each other one. It beats all only if it
    beats the nearest, hence the largest; each of them could have been the one, on one side, hence half their number.
    """
    known = [value for value in values if value is not None]
    if not values or len(known) < len(values):
        return None
    return min(1.0, max(known) * (len(known) + 1) / 2)


def distribution(t: float, freedom: int) -> float:
    """The share of Student's t below a value."""
    tail = 0.5 * _incomplete_beta(freedom / (freedom + t * t), freedom / 2, 0.5)
    return 1 - tail if t >= 0 else tail


def quantile(share: float, freedom: int) -> float:
    """The value below which so much of Student's t lies; for shares of a half and more."""
    low, high = 0.0, 1.0
    while distribution(high, freedom) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if distribution(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def _error(values: Sequence[float], mean: float) -> float:
    """The standard error of a mean."""
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction where that converges quickly."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    return front * _fraction(x, a, b) / a


def _fraction(x: float, a: float, b: float) -> float:
    """Evaluated from the front (Lentz's way)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(tiny, 1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 + term * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + term / c
            c = c if abs(c) > tiny else tiny
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value
