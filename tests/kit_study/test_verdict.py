"""Who is said to have won, and how sure that is."""

from __future__ import annotations

import json

import pytest

from kit_study.cells import write_cell
from kit_study.docs_section import write_section
from kit_study.page import page
from kit_study.results import report


@pytest.fixture
def measured(plan):
    """A report of a study of three norms whose losses are as given, by label and seed."""

    def make(losses: dict[str, list[float]]):
        seeds = len(next(iter(losses.values())))
        names = {"a": "layer", "b": "rms", "c": {"use": "rms", "epsilon": 1e-3}}
        axes = {"norm": {"path": "model.norm", "values": {label: names[label] for label in losses}}}
        made = plan(axes=axes, seeds=seeds)
        for number, values in enumerate(losses.values()):
            for cell, value in zip(made.cells(number), values, strict=True):
                write_cell(cell, made.study, made.kit)
                result = {"figures": {"loss": value}, "series": [], "curves": {}, "steps": 1, "tokens": 1, "seconds": 1}
                (cell.folder / "result.json").write_text(json.dumps(result))
        return report(made)

    return make


def test_those_that_are_exactly_equal_have_no_winner(measured, tmp_path):
    found = measured({"a": [1.0, 1.0], "b": [2.0, 3.0], "c": [1.0, 1.0]})
    (outcome,) = found.outcomes
    assert outcome.winner is None and outcome.best == ["a", "c"] and outcome.lead_p is None
    assert outcome.verdict == "a and c are equal, and nobody wins"
    text = write_section(found, tmp_path / "docs", found.plan.study.path).read_text()
    assert "a and c are equal, and nobody wins." in text
    data = found.as_data()["outcomes"][0]
    assert data["winner"] is None and data["equal"] == ["a", "c"]


def test_one_seed_may_be_equal_too(measured):
    (outcome,) = measured({"a": [1.0], "b": [1.0]}).outcomes
    assert outcome.verdict == "a and b are equal, and nobody wins"


def test_the_p_of_a_winner_is_against_all_others_and_adjusted_for_being_picked(measured, tmp_path):
    found = measured({"a": [1.0, 1.1, 1.2], "b": [1.9, 2.2, 2.2], "c": [3.0, 3.1, 3.3]})
    (outcome,) = found.outcomes
    rows = {row.label: row for row in outcome.rows}
    assert outcome.winner == "a"
    # Against b the differences are 0.9, 1.1 and 1.0: t = 1 / (0.1 / sqrt(3)), and p = 0.0033; three could have won.
    assert outcome.lead_p == pytest.approx(1.5 * 0.00332, rel=1e-2)
    assert outcome.verdict == "a wins (p = 0.005 against all others)"
    assert rows["b"].p is not None
    text = write_section(found, tmp_path / "docs", found.plan.study.path).read_text()
    for shown in (text, page(found)):
        assert "any of them could have come out best" in shown


def test_a_value_that_came_to_nothing_does_not_win(measured):
    (outcome,) = measured({"a": [float("nan"), 1.0], "b": [2.0, 3.0]}).outcomes
    assert outcome.winner == "b"
