"""What a study took is all that it took: evaluation, measures, and what a sweep tried and left."""

from __future__ import annotations

import csv
import json

import pytest

from kit_study.cell_run import run_cell
from kit_study.cells import write_cell
from kit_study.cost import study_cost
from kit_study.docs_section import write_section
from kit_study.planning import result_of
from kit_study.results import report
from kit_study.runner import run_study


@pytest.fixture
def made(plan):
    found = plan(sweep={"values": [1e-9, 0.02]}, measures=["gradient_by_layer"], seeds=2)
    run_study(found)
    return found


def test_every_run_counts_with_all_that_it_did(made):
    results = [json.loads(path.read_text()) for path in made.folder.glob("cells/*/result.json")]
    assert len(results) == 2 * (2 + 1)
    assert all(result["wall_seconds"] > result["seconds"] > 0 for result in results)
    found = study_cost(made)
    assert (found.runs, found.tried) == (6, 2)
    assert found.wall == pytest.approx(sum(result["wall_seconds"] for result in results))
    assert found.training == pytest.approx(sum(result["seconds"] for result in results))


def test_the_section_says_the_time(made, tmp_path):
    text = write_section(report(made), tmp_path / "docs", made.study.path).read_text()
    assert "6 runs (2 of them tried by a sweep and not chosen), " in text
    assert "minutes in all with evaluation and measures, " in text


def test_results_from_before_it_was_written_down_are_read(made, tmp_path):
    (cell, _) = made.cells(0)
    old = result_of(cell)
    del old["wall_seconds"]
    (cell.folder / "result.json").write_text(json.dumps(old))
    found = report(made)
    assert found.complete and study_cost(made).wall is None
    text = write_section(found, tmp_path / "docs", made.study.path).read_text()
    assert "evaluation and measures, which were not timed" in text


def test_time_before_a_kill_counts(plan, kit):
    made = plan(seeds=1)
    (cell,) = made.cells(0)
    write_cell(cell, made.study, made.kit)
    run_cell(cell.folder, kit)
    (cell.folder / "result.json").unlink()  # as if killed between training and result
    with (cell.folder / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    with (cell.folder / "metrics.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows([{**row, "tokens_per_second": "1.0"} for row in rows])  # a slow machine: minutes of training
    again = run_cell(cell.folder, kit)
    assert again["wall_seconds"] > again["seconds"] > 100
