"""Every setting of a search on a table of probabilities, with n-best lists and scores worked out by hand.

The texts of the table and their probabilities: B .36, A .30, AA .108, AAB .072, AB .06, ABA .06, BA .04.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from models.table_decoder import LETTERS, TableDecoder, ask

from kit import Hypothesis
from kit_constraint.length import LengthConstraint, LengthOptions
from kit_constraint.ngrams import NgramsConstraint, NgramsOptions
from kit_search.beam import BeamOptions, BeamSearch
from kit_search.exhaustive import ExhaustiveOptions, ExhaustiveSearch
from kit_search.greedy import GreedyOptions, GreedySearch


def beam(request: Any = None, **options: Any) -> list[Hypothesis]:
    options = {"size": 2, "nbest": 2, "penalty": "none", **options}
    return BeamSearch(BeamOptions(**options)).search(TableDecoder(LETTERS), request or ask())[0]


def check(found: list[Hypothesis], *wanted: tuple[str, float]) -> None:
    """Texts and scores; a text that was cut is written with a dot."""
    names = ["".join("AB"[token] for token in each.tokens) + "." * (not each.finished) for each in found]
    assert names == [name for name, _ in wanted]
    for each, (_, score) in zip(found, wanted, strict=True):
        assert each.score == pytest.approx(score, abs=1e-6)


def test_greedy_takes_the_best_token_and_misses_the_best_text() -> None:
    found = GreedySearch(GreedyOptions()).search(TableDecoder(LETTERS), ask())
    check(found[0], ("A", math.log(0.3)))


def test_not_normalised() -> None:
    check(beam(), ("B", math.log(0.36)), ("A", math.log(0.30)))


def test_normalised_by_length_with_the_end_counted() -> None:
    check(beam(penalty="length"), ("B", math.log(0.36) / 2), ("A", math.log(0.30) / 2))


def test_length_penalty_below_one() -> None:
    wanted = ("B", math.log(0.36) / 2**0.6), ("A", math.log(0.30) / 2**0.6)
    check(beam(penalty="length", alpha=0.6), *wanted)
    check(beam(penalty="length", alpha=0.6, stop="certain"), *wanted)


def test_a_great_length_penalty_prefers_long_texts_if_the_search_waits_for_them() -> None:
    long = ("AAB", math.log(0.072) / 4**5), ("ABA", math.log(0.06) / 4**5)
    check(beam(penalty="length", alpha=5.0, stop="certain"), *long)
    check(beam(penalty="length", alpha=5.0), ("B", math.log(0.36) / 2**5), ("A", math.log(0.30) / 2**5))


def test_the_penalty_of_gnmt() -> None:
    check(
        beam(penalty="gnmt", alpha=0.6), ("B", math.log(0.36) / (7 / 6) ** 0.6), ("A", math.log(0.30) / (7 / 6) ** 0.6)
    )


def test_rules_of_stopping() -> None:
    """Two hypotheses end at step 2; only a rule that looks ahead goes on."""
    steps = {}
    for stop in ("first", "full", "likely", "certain"):
        decoder = TableDecoder(LETTERS)
        BeamSearch(BeamOptions(size=2, stop=stop, penalty="length", alpha=5.0)).search(decoder, ask())
        steps[stop] = decoder.steps
    assert steps == {"first": 2, "full": 2, "likely": 2, "certain": 4}
    alone = BeamSearch(BeamOptions(size=2, stop="certain", penalty="none"))
    alone.search(decoder := TableDecoder(LETTERS), ask())
    assert decoder.steps == 2, "without a penalty no longer text can win"


def test_first_stops_where_one_has_ended() -> None:
    table = {(): [0.5, 0.1, 0.4], (0,): [0.0, 0.0, 1.0], (1,): [0.0, 0.0, 1.0]}
    search = BeamSearch(BeamOptions(size=2, nbest=2, penalty="none", stop="first"))
    check(search.search(TableDecoder(table), ask())[0], ("", math.log(0.4)))
    search = BeamSearch(BeamOptions(size=2, nbest=2, penalty="none", stop="full"))
    check(search.search(TableDecoder(table), ask())[0], ("A", math.log(0.5)), ("", math.log(0.4)))


def test_likely_waits_for_a_live_text_that_would_win_now() -> None:
    table = {(): [0.9, 0.04, 0.06], (0,): [0.9, 0.0, 0.1]}
    found = {}
    for stop in ("full", "likely"):
        search = BeamSearch(BeamOptions(size=2, nbest=2, penalty="none", stop=stop))
        found[stop] = search.search(TableDecoder(table), ask())[0]
    check(found["full"], ("A", math.log(0.09)), ("", math.log(0.06)))
    check(found["likely"], ("AA", math.log(0.81)), ("A", math.log(0.09)))


def test_where_no_token_is_left_the_text_stops_unfinished() -> None:
    """The table never ends at once, and the constraint allows nothing else."""
    request = ask(constraints=[LengthConstraint(LengthOptions(maximum=0))])
    check(beam(request), (".", 0.0))
    check(GreedySearch(GreedyOptions()).search(TableDecoder(LETTERS), request)[0], (".", 0.0))
    found = ExhaustiveSearch(ExhaustiveOptions(nbest=9, penalty="none")).search(TableDecoder(LETTERS), request)
    check(found[0], (".", 0.0))


def test_a_maximum_length_cuts() -> None:
    check(beam(ask(length=1)), ("A.", math.log(0.6)), ("B.", math.log(0.4)))
    check(beam(ask(length=2)), ("B", math.log(0.36)), ("A", math.log(0.30)))
    check(beam(ask(length=1), penalty="length"), ("A.", math.log(0.6)), ("B.", math.log(0.4)))


def test_a_maximum_length_that_ends() -> None:
    """The constraint makes the end part of the text, so its probability counts."""
    request = ask(constraints=[LengthConstraint(LengthOptions(maximum=1))])
    check(beam(request), ("B", math.log(0.36)), ("A", math.log(0.30)))


def test_a_minimum_length() -> None:
    request = ask(constraints=[LengthConstraint(LengthOptions(minimum=3))])
    check(beam(request), ("AAB", math.log(0.072)), ("ABA", math.log(0.06)))


def test_blocked_ngrams() -> None:
    request = ask(constraints=[NgramsConstraint(NgramsOptions(size=1))])
    wanted = ("B", math.log(0.36)), ("A", math.log(0.30)), ("AB", math.log(0.06)), ("BA", math.log(0.04))
    check(beam(request, size=4, nbest=4), *wanted)
    found = ExhaustiveSearch(ExhaustiveOptions(nbest=9, penalty="none")).search(TableDecoder(LETTERS), request)
    check(found[0], *wanted)


def test_diverse_groups() -> None:
    """The second group begins with B, as the first took A; a strong aversion keeps it from ending with the first."""
    check(beam(groups=2, diversity=0.5), ("B", math.log(0.36)), ("A", math.log(0.30)))
    check(beam(groups=2, diversity=3.0), ("A", math.log(0.30)), ("BA", math.log(0.04)))
    check(beam(groups=2, diversity=0.0), ("A", math.log(0.30)), ("A", math.log(0.30)))


def test_exhaustive_knows_all_texts() -> None:
    found = ExhaustiveSearch(ExhaustiveOptions(nbest=9, penalty="none")).search(TableDecoder(LETTERS), ask())[0]
    assert sum(math.exp(each.score) for each in found) == pytest.approx(1.0, abs=1e-6)
    # AB and ABA are equally likely, so their order is open.
    check(found[:4], ("B", math.log(0.36)), ("A", math.log(0.3)), ("AA", math.log(0.108)), ("AAB", math.log(0.072)))
    check(found[6:], ("BA", math.log(0.04)))


def test_texts_of_a_batch_have_their_own_limits_and_leave_when_they_are_done() -> None:
    other = {(): [0.0, 1.0, 0.0], (1,): [0.0, 1.0, 0.0], (1, 1): [0.0, 1.0, 0.0]}
    decoder = TableDecoder(LETTERS, other, LETTERS)
    found = BeamSearch(BeamOptions(size=2, penalty="none")).search(decoder, ask(length=[10, 10, 1]))
    check([each[0] for each in found], ("B", math.log(0.36)), ("BBB", 0.0), ("A.", math.log(0.6)))
    assert decoder.rows == 2, "only the beam of the longest text is left"
