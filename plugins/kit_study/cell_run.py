"""Run of one cell in its folder: trains or resumes it, takes its measures, and writes its result."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from kit import (
    Batch,
    KitError,
    Lock,
    Measure,
    Measured,
    MetricsFile,
    PreparedTraining,
    RunDirectory,
    Split,
    Subject,
    claim_run,
    init_pretrained,
    launch_processes,
    load_weights,
    must_launch,
    plugin_sources,
    prepare_training,
    preserve_rng_state,
    read_origin,
    read_weights,
    silence_lightning,
    train,
    used_parts,
)
from kit_study.budget import TRAINING_FACTOR, CostCounter
from kit_study.cells import CellMeasures, read_measures

if TYPE_CHECKING:
    from kit import Kit, Recipe

RESULT = "result.json"
FAILURE = "failure.txt"
START_PREFIX = "start."
"""The prefix of figures measured before training, in cells that are also measured after it."""
SIZE_FIGURE = "parameters"
"""The figure that replaces the number of parameters, for measures of something other than the model."""


class Interrupted(KitError):
    """A cell was interrupted; its checkpoint is saved, and the next run of the study resumes it."""


def run_cell(folder: Path, kit: Kit, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Runs the cell in a folder to its end and returns its result."""
    run = RunDirectory(folder)
    recipe, cell_measures = kit.recipe(run.recipe), read_measures(folder, kit)
    assert recipe.training is not None
    (folder / FAILURE).unlink(missing_ok=True)
    silence_lightning()
    # Includes the time that was logged before an interruption.
    start_time = time.monotonic() - _logged_seconds(MetricsFile(run.metrics).rows())
    result: dict[str, Any] = {"figures": {}, "series": [], "curves": {}, "steps": 0, "tokens": 0, "seconds": 0.0}
    if "end" in cell_measures.when:
        _train(run, recipe, kit, say or (lambda text: None))
        result |= _training_result(run, recipe, kit)
    with claim_run(run):
        prepared = prepare_training(recipe, kit, read_origin(run), saved_tokenizer=run.tokenizer)
        if "end" not in cell_measures.when:
            _write_lock(run, prepared, kit)
        counter = CostCounter(kit, read_origin(run) or Path())
        result["parameters"] = sum(parameter.numel() for parameter in prepared.model.parameters())
        result["flops_a_token"] = counter.flops(recipe)
        result["flops"] = TRAINING_FACTOR * result["flops_a_token"] * result["tokens"]
        for figures, series in _measurements(run, prepared, kit, cell_measures):
            result["figures"] |= figures
            result["series"] += series
        sizes = [value for name, value in result["figures"].items() if name.endswith(f".{SIZE_FIGURE}")]
        result["parameters"] = int(sizes[-1]) if sizes else result["parameters"]
        result["wall_seconds"] = time.monotonic() - start_time
        run.write(folder / RESULT, json.dumps(result, indent=1) + "\n")
    shutil.rmtree(run.checkpoints, ignore_errors=True)  # the final weights are enough, and disk space is limited
    return result


def _train(run: RunDirectory, recipe: Recipe, kit: Kit, say: Callable[[str], None]) -> None:
    assert recipe.training is not None
    if run.weights.is_file() and any(run.reports.glob("*.json")):
        return  # killed between the end of training and the result
    if must_launch(recipe.training):
        code = launch_processes([sys.executable, "-P", "-m", "kit", "resume", str(run.path)], recipe.training, say)
        if code:
            raise KitError(f"its processes ended with {code}")
        return
    done = train(recipe, kit, run, folder=read_origin(run))
    if done.ending == "interrupted":
        raise Interrupted(f"stopped after step {done.step} of {done.steps}")


def _training_result(run: RunDirectory, recipe: Recipe, kit: Kit) -> dict[str, Any]:
    """Collects the result of a training from its folder, independently of interruptions."""
    assert recipe.training is not None
    figures: dict[str, float] = {}
    for path in sorted(run.reports.glob("*.json")):
        report = json.loads(path.read_text())
        prefix = "" if report["split"] == "test" else "validation_"
        figures |= {f"{prefix}{name}": value for name, value in report["figures"].items()}
    rows = MetricsFile(run.metrics).rows()
    curves = {}
    for name in rows[-1] if rows else ():
        points = [(int(row["step"]), float(row[name])) for row in rows if row.get(name)]
        if name.startswith("validation_"):
            curves[name] = points
    metric_name = f"validation_{recipe.training.metric}"
    best = _best_row(rows, metric_name, recipe.training.metric, kit)
    # Without a test split, figures of the report (all of validation) replace those measured in training.
    figures = {name: float(best[name]) for name in curves if best.get(name)} | figures
    curves["loss"] = _downsampled([(int(row["step"]), float(row["loss"])) for row in rows if row.get("loss")])
    return {
        "figures": figures,
        "curves": curves,
        "steps": int(rows[-1]["step"]) if rows else 0,
        "tokens": sum(float(row["tokens"]) for row in rows),
        "seconds": _logged_seconds(rows),
    }


def _logged_seconds(rows: list[dict[str, str]]) -> float:
    """Returns the duration of the logged steps, without the time between interruptions."""
    return sum(float(row["tokens"]) / float(row["tokens_per_second"]) for row in rows)


def _best_row(rows: list[dict[str, str]], metric_name: str, metric: str, kit: Kit) -> dict[str, str]:
    """Returns the row of the validation with the best metric, whose weights were kept."""
    measured = [row for row in rows if row.get(metric_name)]
    if not measured:
        return {}
    lower = metric == "loss" or getattr(kit.registry.find("metric", metric).component, "lower_is_better", True)
    sign = 1 if lower else -1
    return min(measured, key=lambda row: sign * float(row[metric_name]))


def _downsampled(points: list[tuple[int, float]], most: int = 200) -> list[tuple[int, float]]:
    """Averages neighbouring points of a curve, so that at most `most` are left."""
    size = -(-len(points) // most) if points else 1
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _measurements(
    run: RunDirectory, prepared: PreparedTraining, kit: Kit, cell_measures: CellMeasures
) -> Iterable[tuple[Any, Any]]:
    """Takes the measures before and after training; yields their figures and series."""
    for moment in [each for each in ("start", "end") if each in cell_measures.when]:
        if moment == "end":
            load_weights(prepared.model, read_weights(run))
        else:
            init_pretrained(prepared.model)
        prefix = START_PREFIX if moment == "start" and "end" in cell_measures.when else ""
        for options in cell_measures.measures:
            component: Any = kit.registry.part_for_options(type(options)).component
            name = prefix + component.name()
            found = take_measure(component(options), prepared)
            figures = {f"{name}.{key}": float(value) for key, value in found.figures.items()}
            yield figures, [asdict(each) | {"measure": name} for each in found.series]


def take_measure(measure: Measure, prepared: PreparedTraining) -> Measured:
    """Takes a measure on a prepared model; preserves the state of random generators."""

    def batches(split: Split, most: int) -> Iterable[Batch]:
        return prepared.sources.held_out(split, prepared.training.batch_tokens, most).batches()

    subject = Subject(
        prepared.model.eval(),
        prepared.recipe,
        prepared.data,
        prepared.objective,
        prepared.tokenizers.source,
        batches,
        prepared.training.seed,
    )
    with preserve_rng_state():
        torch.manual_seed(prepared.training.seed)
        found = measure.measure(subject)
    prepared.model.zero_grad(set_to_none=True)
    return found


def _write_lock(run: RunDirectory, prepared: PreparedTraining, kit: Kit) -> None:
    """Writes the lock of a cell that is not trained."""
    data = {prepared.data.name(): prepared.data.fingerprint()}
    prepared.tokenizers.save(run.tokenizer)
    parts = used_parts(prepared.recipe, kit.registry, [prepared.objective.options])
    Lock.current(plugin_sources(kit.plugins), seed=prepared.training.seed, data=data, parts=parts).write(run.lock)
