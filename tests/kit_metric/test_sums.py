"""Metrics as sums over examples: the whole is measured alike whether at once or example by example."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from models.tiny_models import KIT

from kit import Answer, Metric, Results, SummedMetric
from kit_metric.character_error import CharacterErrorMetric, CharacterErrorOptions
from kit_metric.chrf import ChrfMetric, ChrfOptions
from kit_metric.f1 import F1Metric, F1Options
from kit_metric.ter import TerMetric, TerOptions

WORDS = ["a", "cat", "sat", "on", "the", "mat", "."]
METRICS = sorted(part.name for part in KIT.registry.components("metric"))


def made(name: str) -> Metric:
    component: Any = KIT.registry.find("metric", name).component
    metric: Metric = component(component.options_type(use=name))
    return metric


def examples(count: int, seed: int = 0) -> list[Results]:
    drawn = random.Random(seed)
    found = []
    for _ in range(count):
        references = tuple(
            " ".join(drawn.choices(WORDS, k=drawn.randrange(1, 7))) for _ in range(drawn.randrange(1, 3))
        )
        text = references[0] if drawn.random() < 0.5 else " ".join(drawn.choices(WORDS, k=drawn.randrange(7)))
        predicted = drawn.randrange(1, 9)
        found.append(
            Results(drawn.uniform(0, 9), predicted, drawn.randrange(predicted + 1), (Answer("", text, references),))
        )
    return found


@pytest.mark.parametrize("name", METRICS)
def test_a_draw_measures_what_its_examples_measure(name: str) -> None:
    pytest.importorskip("sacrebleu")
    metric, results = made(name), Results.of(examples(12))
    assert isinstance(metric, SummedMetric)
    times = np.random.default_rng(0).multinomial(12, np.full(12, 1 / 12), size=5)
    assert metric.resampler(results)(times) == pytest.approx(Metric.resampler(metric, results)(times), abs=1e-9)
    assert metric.measure(results) == pytest.approx(metric.resampler(results)(np.ones((1, 12), dtype=int))[0])


@pytest.mark.parametrize(("metric", "theirs"), [(ChrfMetric(ChrfOptions()), "CHRF"), (TerMetric(TerOptions()), "TER")])
def test_chrf_and_ter_are_sacrebleus(metric: Metric, theirs: str) -> None:
    metrics = pytest.importorskip("sacrebleu.metrics")
    results = Results.of(examples(30, seed=1))
    scorer = getattr(metrics, theirs)()
    streams = [[(*it.references, None)[place] for it in results.answers] for place in range(2)]
    wanted = scorer.corpus_score([it.text for it in results.answers], streams).score
    assert metric.measure(results) == pytest.approx(wanted)
    assert metric.signature() == str(scorer.get_signature())


def test_chrf_is_called_what_it_is() -> None:
    assert ChrfMetric(ChrfOptions()).label == "chrF"
    assert ChrfMetric(ChrfOptions(words=2)).label == "chrF++"
    assert TerMetric(TerOptions()).lower_is_better and not ChrfMetric(ChrfOptions()).lower_is_better


def test_character_error() -> None:
    found = Results(0.0, 0, 0, [Answer("", "kitten", ("sitting",)), Answer("", "a b", ("a b",))])
    assert CharacterErrorMetric(CharacterErrorOptions()).measure(found) == pytest.approx(3 / 10)


def test_f1_by_hand() -> None:
    pairs = [("a", "a"), ("a", "a"), ("a", "b"), ("b", "b"), ("c", "a")]
    found = Results(0.0, 0, 0, [Answer("", named, (right,)) for named, right in pairs])
    # a: 2·2 / (3 named + 3 right); b: 2·1 / (1 + 2); c: named once, never right
    assert F1Metric(F1Options()).measure(found) == pytest.approx((4 / 6 + 2 / 3 + 0) / 3)
