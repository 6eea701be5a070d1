"""`kit study` as a person types it, and a cell of several processes."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from kit.cli.main import app
from kit_study.planning import Plan, result_of
from kit_study.runner import run_study
from kit_study.study_file import read_study


def typed(*words: str) -> str:
    done = CliRunner().invoke(app, ["study", *words])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_plan_shows_cells_and_sizes_and_runs_nothing(write, tmp_path):
    axes = {"depth": {"path": "model.decoder.depth", "values": [1, 2]}}
    path = write(budget={"same": "parameters"}, axes=axes, changes={"model.width": 48})
    said = typed(str(path), "--plan")
    assert "model.width = " in said and "parameters" in said
    assert not list(tmp_path.rglob("result.json"))


def test_the_table_the_page_and_the_data_show_what_is_there(write, kit, tmp_path):
    path = write()
    assert "not all cells have run yet" in typed(str(path), "--table")
    run_study(Plan(read_study(path, kit.registry), kit))
    said = typed(str(path), "--table")
    assert "against the base" in said and "layer" in said and "not all cells" not in said
    data = json.loads(typed(str(path), "--json"))
    assert [row["label"] for row in data["outcomes"][0]["rows"]] == ["layer", "rms"]
    assert typed(str(path), "--page").strip().endswith("page.html")
    assert (tmp_path / "studies" / "small" / "page.html").read_text().startswith("<!doctype html>")
    assert "studies.md" in typed(str(path), "--docs", str(tmp_path / "docs"))


def test_what_has_not_run_is_documented_as_such(write, tmp_path):
    typed(str(write()), "--docs", str(tmp_path / "docs"))
    assert "Not run yet: `kit study" in (tmp_path / "docs" / "studies.md").read_text()


@pytest.mark.slow
def test_a_cell_may_be_of_two_processes(plan):
    made = plan(changes={"training.devices": 2, "training.accelerator": "cpu"}, seeds=1)
    alone = plan(seeds=1, name="alone")
    assert run_study(made) == 0 and run_study(alone) == 0
    one, two = (result_of(each.cells(0)[0])["figures"]["loss"] for each in (alone, made))
    assert one == pytest.approx(two, rel=1e-4)
