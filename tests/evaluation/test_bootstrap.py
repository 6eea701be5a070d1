"""Intervals cover what they say they do, and the paired test is right as often as it says."""

from __future__ import annotations

import numpy as np
import pytest

from kit import Results
from kit.evaluation.bootstrap import difference, interval
from kit.evaluation.report import LossMetric
from kit_metric.accuracy import AccuracyMetric, AccuracyOptions

ACCURACY = AccuracyMetric(AccuracyOptions())


def coins(right: np.ndarray) -> Results:
    return Results.of([Results(0.0, 1, int(each)) for each in right])


def test_an_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    generator = np.random.default_rng(0)
    held = 0
    for trial in range(200):
        low, high = interval(ACCURACY, coins(generator.random(100) < 0.7), resamples=200, seed=trial) or (1.0, 0.0)
        held += low <= 0.7 <= high
    assert 0.88 <= held / 200 <= 0.99


def test_an_interval_is_that_of_the_binomial() -> None:
    low, high = interval(ACCURACY, coins(np.arange(400) < 300)) or (0, 0)
    spread = 1.96 * (0.75 * 0.25 / 400) ** 0.5
    assert (low, high) == pytest.approx((0.75 - spread, 0.75 + spread), abs=0.008)


def test_the_same_seed_gives_the_same_interval() -> None:
    loss, results = (
        LossMetric(),
        Results.of([Results(nll_sum, 1, 0) for nll_sum in np.random.default_rng(1).random(50)]),
    )
    assert interval(loss, results) == interval(loss, results)
    assert interval(loss, results, seed=1) != interval(loss, results, seed=2)


def test_one_example_or_none_has_no_interval() -> None:
    assert interval(ACCURACY, Results(1.0, 2, 1)) is None
    assert interval(ACCURACY, coins(np.array([True]))) is None


def test_models_that_do_not_differ_seldom_seem_to() -> None:
    generator = np.random.default_rng(2)
    found = [
        difference(ACCURACY, coins(generator.random(60) < 0.6), coins(generator.random(60) < 0.6), 99, trial).p
        for trial in range(200)
    ]
    assert sum(p < 0.05 for p in found) / 200 < 0.09
    assert sum(p < 0.5 for p in found) / 200 < 0.6


def test_a_real_difference_is_found_and_the_same_model_has_none() -> None:
    generator = np.random.default_rng(3)
    worse, better = coins(generator.random(200) < 0.5), coins(generator.random(200) < 0.8)
    found = difference(ACCURACY, worse, better)
    assert found.p < 0.01 and found.low > 0
    assert found.low < found.value < found.high
    assert found.value == pytest.approx(ACCURACY.measure(better) - ACCURACY.measure(worse))
    same = difference(ACCURACY, worse, worse)
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)


def test_pairing_finds_what_two_intervals_would_not() -> None:
    """Examples differ far more from each other than the models do on any of them."""
    generator = np.random.default_rng(4)
    hard = generator.uniform(0, 10, 100)
    first, second = (Results.of([Results(nll_sum + gain, 1, 0) for nll_sum in hard]) for gain in (0.0, -0.05))
    loss = LossMetric()
    left, right = interval(loss, first) or (0, 0), interval(loss, second) or (0, 0)
    assert left[0] < right[1], "the intervals overlap"
    assert difference(loss, first, second).p < 0.01
