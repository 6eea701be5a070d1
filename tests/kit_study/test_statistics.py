"""Student's t against tables, paired tests and the adjustment for several of them."""

from __future__ import annotations

import random

import pytest

from kit_study.statistics import estimate, holm, paired_p, student_t_cdf, student_t_quantile, winner_p


@pytest.mark.parametrize(("freedom", "value"), [(1, 12.706), (2, 4.303), (4, 2.776), (9, 2.262), (30, 2.042)], ids=str)
def test_the_95_per_cent_interval_has_the_factor_of_the_tables(freedom, value):
    assert student_t_quantile(0.975, freedom) == pytest.approx(value, abs=5e-4)


def test_the_distribution_is_symmetric_and_has_closed_forms_with_one_and_two_degrees():
    assert student_t_cdf(0.0, 7) == pytest.approx(0.5)
    assert student_t_cdf(1.3, 5) + student_t_cdf(-1.3, 5) == pytest.approx(1.0)
    assert student_t_cdf(1.0, 1) == pytest.approx(0.75)  # Cauchy
    assert student_t_cdf(2.0, 2) == pytest.approx(0.5 + 2.0 / (2 * (2 + 4.0) ** 0.5))


def test_a_mean_comes_with_its_interval():
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == pytest.approx(2.0)
    assert found.half == pytest.approx(4.303 / 3**0.5, rel=1e-3)
    assert estimate([1.5]).interval is None


def test_a_paired_test_sees_what_seeds_have_in_common():
    base, other = [1.0, 5.0, 9.0], [1.1, 5.2, 9.1]
    assert paired_p([b - a for a, b in zip(base, other, strict=True)]) == pytest.approx(0.0572, abs=1e-3)
    assert paired_p([0.0, 0.0, 0.0]) == 1.0
    assert paired_p([0.5, 0.5]) == 0.0
    assert paired_p([0.5]) is None


def test_several_tests_are_adjusted_in_order():
    assert holm([0.01, 0.04, None, 0.03]) == [pytest.approx(0.03), pytest.approx(0.06), None, pytest.approx(0.06)]


def test_the_one_that_came_out_best_is_adjusted_for_having_been_picked():
    assert winner_p([0.04]) == pytest.approx(0.04)  # of two, one has to
    assert winner_p([0.01, 0.002, 0.004]) == pytest.approx(0.02)
    assert winner_p([0.6, 0.9]) == 1.0
    assert winner_p([]) is None and winner_p([0.01, None]) is None


@pytest.mark.parametrize("count", [2, 6])
def test_where_all_are_alike_a_winner_is_called_in_one_case_of_twenty_at_most(count):
    drawn = random.Random(0)
    called = 0
    for _ in range(1000):
        values = sorted(([drawn.gauss(0, 1) for _ in range(3)] for _ in range(count)), key=sum)
        chances = [paired_p([a - b for a, b in zip(values[-1], other, strict=True)]) for other in values[:-1]]
        called += winner_p(chances) < 0.05
    assert called / 1000 < 0.065  # three standard errors of 1,000 draws above 0.05 would be 0.071
