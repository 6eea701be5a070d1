"""Running a study: what is done stays done, what fails stays alone, what is swept is chosen on validation."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
from torch import Tensor

from kit import Kit, Mask, MaskFeatures, Options, hookimpl
from kit.runs.lock import Lock
from kit.runs.run_directory import RunError
from kit_study.cell_run import run_cell
from kit_study.planning import Plan, result_of
from kit_study.results import report
from kit_study.runner import run_study
from kit_study.study_file import read_study


def figures(plan: Plan) -> dict[str, dict[int, float]]:
    return {row.label: row.values for outcome in report(plan).outcomes for row in outcome.rows}


def test_a_study_comes_to_a_table(plan):
    made = plan()
    assert run_study(made) == 0
    found = report(made)
    assert found.complete
    (outcome,) = found.outcomes
    layer, rms = outcome.rows
    assert layer.is_base and layer.difference is None
    assert set(layer.values) == {0, 1} and layer.estimate.half is not None
    assert rms.difference.mean == pytest.approx(rms.estimate.mean - layer.estimate.mean)
    assert rms.p is not None and 0 <= rms.p <= 1
    means = {row.label: row.estimate.mean for row in outcome.rows}
    assert outcome.winner == min(means, key=means.get)
    assert layer.mean("parameters") > 0 and layer.mean("flops") > 0 and layer.mean("steps") == 6


def test_a_cell_is_a_run_with_its_recipe_lock_and_weights(plan, kit):
    made = plan(seeds=1)
    run_study(made)
    (cell,) = made.cells(0)
    assert Lock.read(cell.folder / "lock.json").seed == 0
    assert kit.recipe(cell.folder / "recipe.yaml").model.norm.use == "layer"
    assert (cell.folder / "weights.safetensors").is_file()
    assert not list((cell.folder / "checkpoints").glob("*")) if (cell.folder / "checkpoints").exists() else True


def test_what_is_done_is_not_run_again_and_what_is_new_is(plan):
    run_study(plan())
    before = {path: path.stat().st_mtime_ns for path in Path("studies").rglob("result.json")}
    said: list[str] = []
    run_study(plan(), say=said.append)
    assert said == []
    run_study(plan(seeds=3), say=said.append)
    after = {path: path.stat().st_mtime_ns for path in Path("studies").rglob("result.json")}
    assert len(before) == 4 and len(after) == 6
    assert all(after[path] == time for path, time in before.items())


def test_a_cell_that_changed_is_another_cell(plan):
    run_study(plan(seeds=1))
    changed = plan(seeds=1, changes={"training.steps": 5})
    assert all(result_of(cell) is None for cell in changed.cells(0))


def test_a_failing_cell_is_reported_and_the_rest_runs(plan):
    # A task with one example cannot have three splits, which shows only when the data is drawn.
    values = {"right": {}, "wrong": {"data": {"use": "copy", "symbols": 1, "max_length": 1, "min_length": 1}}}
    made = plan(axes={"data": {"values": values}}, seeds=2)
    said: list[str] = []
    assert run_study(made, say=said.append) == 2
    assert sum("FAILED" in line for line in said) == 2
    (outcome,) = report(made).outcomes
    right, wrong = outcome.rows
    assert len(right.values) == 2 and not right.failures
    assert not wrong.values and len(wrong.failures) == 2 and "10000 draws" in wrong.failures[0]
    assert outcome.winner == "right" and report(made).complete


def test_a_cell_that_failed_is_tried_again(plan):
    made = plan(seeds=1)
    run_study(made)
    (cell,) = made.cells(0)
    (cell.folder / "result.json").unlink()
    (cell.folder / "failure.txt").write_text("something\n")
    assert run_study(made) == 0 and result_of(cell) is not None
    assert not (cell.folder / "failure.txt").exists()


def test_a_cell_is_looked_at_only_with_the_weights_it_kept(plan, kit):
    made = plan(seeds=1)
    run_study(made)
    (cell,) = made.cells(0)
    (cell.folder / "result.json").unlink()  # as if a kill had come between the end of training and the result
    weights = bytearray((cell.folder / "weights.safetensors").read_bytes())
    weights[-1] ^= 1
    (cell.folder / "weights.safetensors").write_bytes(weights)
    with pytest.raises(RunError, match="does not hold what was written"):
        run_cell(cell.folder, kit)
    assert result_of(cell) is None


def test_a_sweep_takes_the_best_on_validation_and_its_run_is_one_of_the_seeds(plan):
    made = plan(sweep={"values": [1e-9, 0.02]}, metric="accuracy", seeds=2)
    assert made.cells(0) is None  # nothing is known yet
    run_study(made)
    for number, tried in made.sweeps.items():
        validated = {cell.swept: result_of(cell)["figures"]["validation_accuracy"] for cell in tried}
        assert made.chosen(number).swept == max(validated, key=validated.get)
        assert made.cells(number)[0].folder in [cell.folder for cell in tried]
    assert len(list(Path("studies").rglob("result.json"))) == 2 * (2 + 1)


def test_measures_before_and_after_training(plan):
    made = plan(measures=["path_length", {"use": "gradient_by_layer", "examples": 4}], when=["end", "start"], seeds=1)
    run_study(made)
    known = result_of(made.cells(0)[0])
    names = set(known["figures"])
    assert {"path_length.longest", "start.path_length.longest", "start.gradient_by_layer.first"} <= names
    assert known["figures"]["gradient_by_layer.first"] != known["figures"]["start.gradient_by_layer.first"]
    assert {each["measure"] for each in known["series"]} >= {"path_length", "start.path_length"}


def test_a_study_that_only_looks_trains_nothing(plan):
    made = plan(measures=["path_length"], when=["start"], metric="path_length.longest", better="lower", seeds=1)
    run_study(made)
    known = result_of(made.cells(0)[0])
    assert known["steps"] == 0 and known["figures"]["path_length.longest"] == 1
    assert not list(Path("studies").rglob("weights.safetensors"))


class LeftOptions(Options):
    """Sees the token before itself, and itself."""

    use: Literal["left_neighbour"] = "left_neighbour"


class LeftMask(Mask):
    """A part that nobody but this test has."""

    options_type = LeftOptions
    hides_future = True

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """One step back."""
        return (k <= q) & (q - k < 2)


@hookimpl
def kit_components():
    return [LeftMask]


def test_a_third_partys_part_can_be_an_axis(plan):
    stranger = Kit(plugins=[SimpleNamespace(__name__="stranger", kit_api=1, kit_components=kit_components)])
    values = {"causal": {}, "left": {"model.decoder.masks": ["left_neighbour"]}}
    made = plan(stranger, axes={"mask": {"values": values}}, seeds=1, measures=["path_length"])
    assert run_study(made) == 0
    far = {row.label: row.figures()["path_length.farthest"].mean for row in report(made).outcomes[0].rows}
    assert far == {"causal": 1, "left": 31}


def test_quick_keeps_the_labels_and_lays_its_changes_over_all(write, kit, tmp_path):
    quick = {"seeds": 1, "axes": {"norm": ["rms"]}, "changes": {"training.steps": 2}}
    study = read_study(write(quick=quick, changes={"training.steps": 4}), kit.registry, quick=True)
    made = Plan(study, kit, tmp_path / "studies")
    (only,) = made.combinations
    (cell,) = made.cells(0)
    assert only.labels == {"norm": "rms"} and cell.recipe.training.steps == 2
    assert study.name == "small-quick" and study.base_label() == "rms"


def test_the_report_can_be_read_by_programs(plan):
    made = plan(seeds=1)
    run_study(made)
    data = json.loads(json.dumps(report(made).as_data()))
    assert data["outcomes"][0]["rows"][0]["label"] == "layer" and data["complete"]
