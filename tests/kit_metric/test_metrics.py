"""Metrics against figures worked out by hand, and BLEU against sacrebleu itself."""

from __future__ import annotations

import math
import random

import pytest

from kit import Answer, Results
from kit_metric.accuracy import AccuracyMetric, AccuracyOptions
from kit_metric.bleu import BleuMetric, BleuOptions
from kit_metric.character_error import CharacterErrorMetric, CharacterErrorOptions
from kit_metric.edit_distance import edit_distance
from kit_metric.exact import ExactMetric, ExactOptions
from kit_metric.perplexity import PerplexityMetric, PerplexityOptions
from kit_metric.sequence_error import SequenceErrorMetric, SequenceErrorOptions
from kit_metric.token_error import TokenErrorMetric, TokenErrorOptions


def results(*answers: tuple[str, tuple[str, ...]]) -> Results:
    return Results(0.0, 0, 0, [Answer("", text, references) for text, references in answers])


def test_edit_distance_of_known_words():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance("", "abc") == edit_distance("abc", "") == 3
    assert edit_distance("flaw", "lawn") == 2
    assert edit_distance(["a", "b"], ["a", "b"]) == 0


def test_edit_distance_is_a_metric():
    drawn = random.Random(0)
    for _ in range(100):
        a, b, c = ("".join(drawn.choices("ab", k=drawn.randrange(7))) for _ in range(3))
        assert edit_distance(a, b) == edit_distance(b, a)
        assert (edit_distance(a, b) == 0) == (a == b)
        assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)


def test_token_error_takes_the_nearest_reference():
    found = results(("A B C", ("A B C", "X")), ("A B", ("A B D E", "A X")), ("", ("A",)))
    # 0 of 3, then 1 of 2 (A X is nearer than A B D E), then 1 of 1
    assert TokenErrorMetric(TokenErrorOptions()).measure(found) == pytest.approx(2 / 6)


def test_token_error_by_character():
    found = results(("kitten", ("sitting",)))
    assert CharacterErrorMetric(CharacterErrorOptions()).measure(found) == pytest.approx(3 / 7)


def test_exact_and_sequence_error_make_a_whole():
    found = results(("a b", ("a b",)), ("a", ("b", "a")), ("c ", ("c",)), ("d", ("e",)))
    assert ExactMetric(ExactOptions()).measure(found) == 0.75
    assert SequenceErrorMetric(SequenceErrorOptions()).measure(found) == 0.25


def test_accuracy_and_perplexity():
    found = Results(nll_sum=8 * math.log(5), num_predictions=8, correct=2)
    assert AccuracyMetric(AccuracyOptions()).measure(found) == 0.25
    assert PerplexityMetric(PerplexityOptions()).measure(found) == pytest.approx(5)
    assert PerplexityMetric(PerplexityOptions()).measure(Results(1e6, 1, 0)) == math.inf


def test_nothing_measured_is_no_crash():
    empty = Results(0.0, 0, 0)
    for metric in (
        AccuracyMetric(AccuracyOptions()),
        PerplexityMetric(PerplexityOptions()),
        ExactMetric(ExactOptions()),
        SequenceErrorMetric(SequenceErrorOptions()),
        TokenErrorMetric(TokenErrorOptions()),
        BleuMetric(BleuOptions()),
    ):
        assert math.isfinite(metric.measure(empty))


def test_bleu_is_sacrebleus_with_its_signature():
    sacrebleu = pytest.importorskip("sacrebleu")
    texts = ["Ein Mann fährt Rad .", "zwei Hunde spielen im Schnee", "ein Haus"]
    references = ["Ein Mann fährt ein Rad.", "Zwei Hunde spielen im Schnee.", "Ein großes Haus am See."]
    metric = BleuMetric(BleuOptions())
    found = metric.measure(results(*((text, (wanted,)) for text, wanted in zip(texts, references, strict=True))))
    assert found == pytest.approx(sacrebleu.corpus_bleu(texts, [references]).score)
    assert metric.signature().startswith("nrefs:1|case:mixed|")


def test_bleu_with_several_references():
    sacrebleu = pytest.importorskip("sacrebleu")
    found = BleuMetric(BleuOptions()).measure(
        results(("a b c d e", ("a b c x e", "a b c d y")), ("f g h i", ("f g h i",)))
    )
    wanted = sacrebleu.corpus_bleu(["a b c d e", "f g h i"], [["a b c x e", "f g h i"], ["a b c d y", "f g h i"]])
    assert found == pytest.approx(wanted.score)


def test_a_label_is_what_people_read():
    assert TokenErrorMetric(TokenErrorOptions(label="phoneme error")).label == "phoneme error"
    assert TokenErrorMetric(TokenErrorOptions()).label == "token error"
