"""What measures find in models whose answer is known."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from kit import Kit, KitError
from kit.training.preparation import prepare_training
from kit_measure.accuracy_by_length import AccuracyByLengthMeasure, AccuracyByLengthOptions
from kit_measure.gradient_by_distance import GradientByDistanceMeasure, GradientByDistanceOptions, summary
from kit_measure.gradient_by_layer import GradientByLayerMeasure, GradientByLayerOptions
from kit_measure.path_length import PathLengthMeasure, PathLengthOptions, recurrent_connections, shortest_paths
from kit_measure.saturation import SaturationMeasure, SaturationOptions
from kit_measure.senses import SensesMeasure, SensesOptions
from kit_measure.speed import SpeedMeasure, SpeedOptions
from kit_measure.static_vectors import glove
from kit_study.cell_run import take_measure

KIT = Kit()
RECIPE = """
name: measured
model:
  family: decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  decoder: {depth: 2, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [causal]}
data: {use: reverse, symbols: 5, max_length: 6, train: 40, validation: 12, test: 12}
tokenizer: words
training: {steps: 1, batch_tokens: 100, metrics: [accuracy]}
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def prepared(*overrides: str) -> Any:
    return prepare_training(KIT.recipe(RECIPE, overrides), KIT)


def test_the_gradient_reaches_every_token_and_no_later_one():
    found = take_measure(GradientByDistanceMeasure(GradientByDistanceOptions()), prepared())
    (curve,) = found.series
    assert list(curve.x) == list(range(24)) and all(value > 0 for value in curve.y)


def test_the_gradient_by_distance_is_the_norm_of_the_slope():
    """A recurrence that halves what it remembers at each step: its gradient halves with distance."""
    ready = prepared("model.decoder={use: rnn, activation: relu}")
    cells = ready.model.decoder.stack.cells
    with torch.no_grad():
        cells.weight_ih_l0.copy_(torch.eye(16))
        cells.weight_hh_l0.copy_(0.5 * torch.eye(16))
        cells.bias_ih_l0.fill_(10.0)  # no activation is ever at its corner
    found = take_measure(GradientByDistanceMeasure(GradientByDistanceOptions()), ready)
    assert found.figures["slope"] == pytest.approx(math.log(0.5), rel=1e-4)
    assert found.figures["fit"] == pytest.approx(1.0, abs=1e-5)


def test_a_gradient_that_vanished_altogether_is_steep_and_finite():
    found = summary(torch.tensor([1.0, 1e-20, 0.0, 0.0]))
    assert math.isfinite(found.figures["slope"]) and found.figures["slope"] < -10


@pytest.mark.parametrize(("size", "moves"), [(2, 23), (4, 8), (9, 3), (24, 1)], ids=str)
def test_the_path_through_a_window_is_distance_over_window(size, moves):
    ready = prepared(f"model.decoder.attention={{use: window, heads: 2, size: {size}}}")
    found = take_measure(PathLengthMeasure(PathLengthOptions()), ready)
    assert found.figures["farthest"] == moves == math.ceil(23 / (size - 1))
    (curve,) = found.series
    assert list(curve.y) == [math.ceil(distance / (size - 1)) for distance in range(24)]


def test_the_path_of_attention_is_one_and_of_a_recurrence_the_distance():
    attention = take_measure(PathLengthMeasure(PathLengthOptions()), prepared()).figures
    recurrent = take_measure(
        PathLengthMeasure(PathLengthOptions()), prepared("model.decoder={use: gru, depth: 2}")
    ).figures
    assert (attention["farthest"], attention["sequential"]) == (1, 2)
    assert (recurrent["farthest"], recurrent["sequential"]) == (23, 25)


def test_attention_without_weights_is_asked_through_its_gradient():
    found = take_measure(
        PathLengthMeasure(PathLengthOptions()), prepared("model.decoder.attention={use: linear, heads: 2}")
    )
    assert found.figures["farthest"] == 1 and found.figures["unreached"] == 0


def test_what_cannot_be_reached_is_counted():
    joins = torch.eye(6, dtype=torch.bool)
    joins[5, 3] = True
    assert shortest_paths(joins) == [0, -1, 1, -1, -1, -1]
    assert shortest_paths(recurrent_connections(5, bidirectional=False)) == [0, 1, 2, 3, 4]


def test_uniform_attention_is_not_saturated_and_one_hot_attention_is():
    ready = prepared()
    for layer in ready.model.decoder.stack.layers:
        torch.nn.init.zeros_(layer.attention.query_key_value.weight)
    uniform = take_measure(SaturationMeasure(SaturationOptions(length=16)), ready).figures
    assert uniform["entropy"] == pytest.approx(1.0, abs=1e-5) and uniform["saturated"] == 0
    keys = range(9, 17)  # what the queries of the second half of 16 tokens see
    assert uniform["largest_weight"] == pytest.approx(sum(1 / count for count in keys) / 8, rel=1e-5)
    sharp = prepared("model.decoder.attention.scale=10000")
    saturated = take_measure(SaturationMeasure(SaturationOptions(length=16)), sharp).figures
    assert saturated["saturated"] > 0.95 and saturated["passed_on"] < 0.05


def test_gradients_by_layer_add_up_to_those_of_the_layers():
    ready = prepared()
    found = take_measure(GradientByLayerMeasure(GradientByLayerOptions(examples=6)), ready)
    (curve,) = found.series
    assert list(curve.x) == [1.0, 2.0] and found.figures["first"] == curve.y[0] > 0
    assert all(parameter.grad is None for parameter in ready.model.parameters())


def test_accuracy_by_length_averages_to_the_accuracy():
    ready = prepared("training.batch_tokens=400")
    found = take_measure(AccuracyByLengthMeasure(AccuracyByLengthOptions(step=100)), ready)
    (curve,) = found.series
    measured = [ready.evaluator(split).evaluate(ready.model) for split in ("validation", "test")]
    low, high = sorted(each.figures["accuracy"] for each in measured)
    assert low - 1e-9 <= curve.y[0] <= high + 1e-9


def test_speed_is_measured_at_every_length():
    found = take_measure(SpeedMeasure(SpeedOptions(lengths=[4, 8], tokens=16, repeats=1, decode=2)), prepared())
    names = ("train", "forward", "decode")
    assert set(found.figures) == {f"{name}_{at}" for name in names for at in ("at_4", "at_8", "longest")}
    assert all(value > 0 for value in found.figures.values())
    with pytest.raises(KitError, match="made for 24"):
        take_measure(SpeedMeasure(SpeedOptions(lengths=[64])), prepared())


def homonyms(*overrides: str) -> Any:
    data = "data={use: homonyms, train: 200, validation: 20, test: 20}"
    stack = "{depth: 1, attention: {use: softmax, heads: 2}, residual: pre}"
    model = f"model={{family: encoder, decoder: null, encoder: {stack}}}"
    return prepared(data, model, *overrides)


def test_a_static_vector_says_nothing_of_the_sense_and_is_the_same_everywhere():
    options = SensesOptions(vectors="glove", occurrences=480, sentences=100)
    found = take_measure(SensesMeasure(options), homonyms()).figures
    assert found["accuracy"] == pytest.approx(0.5, abs=0.1) and "bank" in found
    assert found["self_similarity"] == pytest.approx(1.0)


def test_the_embedding_of_a_model_is_static_too_and_its_layers_are_not():
    ready = homonyms("model.position=none", "model.encoder.masks=[document]")
    found = take_measure(SensesMeasure(SensesOptions(occurrences=480)), ready)
    (curve,) = found.series
    assert curve.y[0] == pytest.approx(0.5, abs=0.1)
    assert found.figures["self_similarity"] < 0.999


def test_senses_need_data_that_knows_them():
    with pytest.raises(KitError, match="take homonyms"):
        take_measure(SensesMeasure(SensesOptions()), prepared())


def test_glove_puts_words_near_that_stand_together():
    texts = [["a", "b"], ["c", "d"]] * 30 + [["a", "c"]]
    found = glove(texts, 8, seed=0)
    assert set(found) == {"a", "b", "c", "d"}
    assert float(found["a"] @ found["b"]) > float(found["a"] @ found["c"])


def test_a_measure_leaves_the_generators_as_they_were():
    ready = prepared()
    before = torch.get_rng_state()
    take_measure(GradientByDistanceMeasure(GradientByDistanceOptions()), ready)
    assert torch.equal(before, torch.get_rng_state())
