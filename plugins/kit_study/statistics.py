"""Means with confidence intervals and paired tests for a few seeds: Student's t without a dependency."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval."""

    mean: float
    half: float | None
    """Half the width of the 95 % interval; None for a single value."""
    count: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The lower and upper bound."""
        return None if self.half is None else (self.mean - self.half, self.mean + self.half)


def estimate(values: Sequence[float]) -> Estimate:
    """Computes the mean with its 95 % interval (Student's t)."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, count)
    return Estimate(mean, student_t_quantile(0.5 + CONFIDENCE / 2, count - 1) * _standard_error(values, mean), count)


def paired_p(differences: Sequence[float]) -> float | None:
    """Computes the p value of a two-sided paired t-test; None with fewer than two differences."""
    count = len(differences)
    if count < 2:
        return None
    mean = math.fsum(differences) / count
    error = _standard_error(differences, mean)
    # Equal differences have no standard error; tiny ones are rounding errors.
    if error <= 1e-12 * max(abs(mean), 1e-300):
        return 1.0 if abs(mean) < 1e-12 else 0.0
    return 2 * (1 - student_t_cdf(abs(mean) / error, count - 1))


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Adjusts p values for multiple comparisons (Holm 1979)."""
    order = sorted((value, index) for index, value in enumerate(values) if value is not None)
    adjusted: list[float | None] = [None] * len(values)
    largest = 0.0
    for rank, (value, index) in enumerate(order):
        largest = max(largest, min(1.0, value * (len(order) - rank)))
        adjusted[index] = largest
    return adjusted


def winner_p(values: Sequence[float | None]) -> float | None:
    """Computes the p value of the best of several against all others; None if a test is undefined.

    values: the two-sided p values of the best against each of the others. The largest counts, since the best must beat
    its nearest competitor; half the number of candidates is the (one-sided) Bonferroni factor of choosing the best.
    """
    known = [value for value in values if value is not None]
    if not values or len(known) < len(values):
        return None
    return min(1.0, max(known) * (len(known) + 1) / 2)


def student_t_cdf(t: float, df: int) -> float:
    """Computes the cumulative distribution function of Student's t."""
    tail = 0.5 * _incomplete_beta(df / (df + t * t), df / 2, 0.5)
    return 1 - tail if t >= 0 else tail


def student_t_quantile(probability: float, df: int) -> float:
    """Computes the quantile function of Student's t by bisection, for probabilities of at least one half."""
    low, high = 0.0, 1.0
    while student_t_cdf(high, df) < probability:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_cdf(middle, df) < probability else (low, middle)
    return (low + high) / 2


def _standard_error(values: Sequence[float], mean: float) -> float:
    """Computes the standard error of a mean."""
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(variance / len(values))


def _incomplete_beta(x: float, a: float, b: float) -> float:
    """Computes the regularised incomplete beta function by its continued fraction, where that converges quickly."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(1 - x, b, a)
    return front * _continued_fraction(x, a, b) / a


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Evaluates the continued fraction by Lentz's method."""
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
