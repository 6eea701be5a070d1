"""Cells are made equal in what the budget names, without training."""

from __future__ import annotations

import pytest

from kit import KitError
from kit_study.budget import CostCounter, width_for

STACKS = {
    "transformer": {},
    "heads": {"model.decoder.attention.heads": 3},
    "rnn": {"model.decoder": {"use": "rnn"}},
    "lstm": {"model.decoder": {"use": "lstm"}},
    "deep": {"model.decoder.depth": 4},
}


def test_a_width_is_found_among_those_that_are_allowed():
    def count(width: int) -> int | None:
        return 10 * width + width**2 if width % 6 == 0 else None

    assert width_for(count(60) or 0, count) == 60
    near = width_for(1500, count)
    assert near % 6 == 0
    assert all(abs((count(near) or 0) - 1500) <= abs((count(other) or 0) - 1500) for other in range(6, 100, 6))


def test_cells_of_the_same_parameters_are_within_five_per_cent(plan):
    made = plan(
        axes={"stack": {"values": STACKS}},
        changes={"model.width": 48, "data.symbols": 9},
        budget={"same": "parameters"},
    )
    counter = CostCounter(made.kit, made.study.folder)
    counts = [counter.parameters(each.recipe(made.study, made.kit)) for each in made.combinations]
    assert all(abs(count / counts[0] - 1) <= 0.05 for count in counts), counts
    assert made.combinations[1].adjusted["model.width"] % 3 == 0


def test_what_cannot_be_made_equal_is_said(plan):
    deep = {"base": {}, "deep": {"model.decoder.depth": 60}}
    made = plan(axes={"depth": {"values": deep}}, changes={"model.width": 2, "model.decoder.attention.heads": 1},
                budget={"same": "parameters"})  # fmt: skip
    with pytest.raises(KitError, match=r"widen budget\.within"):
        _ = made.combinations


def test_the_same_tokens_take_fewer_larger_steps(plan):
    batches = {"path": "training.batch_tokens", "values": [120, 240, 60]}
    made = plan(axes={"batch": batches}, budget={"same": "tokens"})
    steps = [each.recipe(made.study, made.kit).training.steps for each in made.combinations]
    assert steps == [6, 3, 12]


def test_the_same_operations_take_fewer_steps_of_a_deeper_model(plan):
    made = plan(axes={"depth": {"path": "model.decoder.depth", "values": [1, 3]}}, budget={"same": "flops"})
    counter = CostCounter(made.kit, made.study.folder)
    recipes = [each.recipe(made.study, made.kit) for each in made.combinations]
    work = [counter.step_cost(recipe, "flops") * recipe.training.steps for recipe in recipes]
    one_step = counter.step_cost(recipes[1], "flops")
    assert recipes[1].training.steps < recipes[0].training.steps
    assert abs(work[1] - work[0]) <= one_step / 2 + 1


def test_what_was_measured_once_stays_as_it_is(plan):
    first = plan(axes={"batch": {"path": "training.batch_tokens", "values": [120, 240]}}, budget={"same": "time"})
    steps = [each.adjusted for each in first.combinations]
    assert steps[1]["training.steps"] >= 1
    again = plan(axes={"batch": {"path": "training.batch_tokens", "values": [120, 240]}}, budget={"same": "time"})
    assert [each.adjusted for each in again.combinations] == steps
