"""Runs one cell in its folder: trains it (or goes on with that), looks at it, and writes down what came of it."""

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

from kit.contracts.data import Split
from kit.contracts.measure import Measure, Measured, Subject
from kit.data.batch import Batch
from kit.errors import KitError
from kit.runs.claim import claimed
from kit.runs.directory import RunDirectory
from kit.runs.lock import Lock
from kit.runs.metrics import MetricsFile
from kit.runs.sources import plugin_sources
from kit.runs.used import used_parts
from kit.runs.weights import kept_weights
from kit.studying.budget import BACKWARD, Counter
from kit.studying.cells import Asked, read_asked
from kit.training import randomness
from kit.training.engine import train
from kit.training.launching import launch, must_launch
from kit.training.origin import read_origin
from kit.training.placing import load_weights
from kit.training.preparing import Prepared, prepare, start_parts
from kit.training.quiet import silence

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.recipe.sections import Recipe

RESULT = "result.json"
FAILURE = "failure.txt"
BEFORE = "start."
"""Starts the names of what was measured before training, in cells that are trained and measured again."""
SIZE = "parameters"
"""What a measure calls the size of what it looked at, where that is not the model."""


class Interrupted(KitError):
    """A cell was asked to stop; everything is saved, and running the study again goes on with it."""


def run_cell(folder: Path, kit: Kit, say: Callable[[str], None] | None = None) -> dict[str, Any]:
    """Run the cell in a folder to its end, and give its result."""
    run = RunDirectory(folder)
    recipe, asked = kit.recipe(run.recipe), read_asked(folder, kit)
    assert recipe.training is not None
    (folder / FAILURE).unlink(missing_ok=True)
    silence()
    # What was logged before a kill took time as well, though it is not this process that spent it.
    began = time.monotonic() - _logged_seconds(MetricsFile(run.metrics).rows())
    result: dict[str, Any] = {"figures": {}, "series": [], "curves": {}, "steps": 0, "tokens": 0, "seconds": 0.0}
    if "end" in asked.when:
        _train(run, recipe, kit, say or (lambda text: None))
        result |= _trained(run, recipe, kit)
    with claimed(run):
        prepared = prepare(recipe, kit, read_origin(run), saved_tokenizer=run.tokenizer)
        if "end" not in asked.when:
            _lock(run, prepared, kit)
        counter = Counter(kit, read_origin(run) or Path())
        result["parameters"] = sum(parameter.numel() for parameter in prepared.model.parameters())
        result["flops_a_token"] = counter.flops(recipe)
        result["flops"] = BACKWARD * result["flops_a_token"] * result["tokens"]
        for figures, series in _looks(run, prepared, kit, asked):
            result["figures"] |= figures
            result["series"] += series
        sizes = [value for name, value in result["figures"].items() if name.endswith(f".{SIZE}")]
        result["parameters"] = int(sizes[-1]) if sizes else result["parameters"]
        result["wall_seconds"] = time.monotonic() - began
        run.write(folder / RESULT, json.dumps(result, indent=1) + "\n")
    shutil.rmtree(run.checkpoints, ignore_errors=True)  # the weights that were kept are enough, and cells are many
    return result


def _train(run: RunDirectory, recipe: Recipe, kit: Kit, say: Callable[[str], None]) -> None:
    assert recipe.training is not None
    if run.weights.is_file() and any(run.reports.glob("*.json")):
        return  # a kill came between the end of training and the result
    if must_launch(recipe.training):
        code = launch([sys.executable, "-P", "-m", "kit", "resume", str(run.path)], recipe.training, say)
        if code:
            raise KitError(f"its processes ended with {code}")
        return
    done = train(recipe, kit, run, folder=read_origin(run))
    if done.ending == "interrupted":
        raise Interrupted(f"stopped after step {done.step} of {done.steps}")


def _trained(run: RunDirectory, recipe: Recipe, kit: Kit) -> dict[str, Any]:
    """What a training came to, from its folder: the same whether or not it was interrupted on the way."""
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
    watched = f"validation_{recipe.training.metric}"
    best = _best_row(rows, watched, recipe.training.metric, kit)
    # Where there is no test split the report is of the whole of validation, which is more than was watched.
    figures = {name: float(best[name]) for name in curves if best.get(name)} | figures
    curves["loss"] = _thinned([(int(row["step"]), float(row["loss"])) for row in rows if row.get("loss")])
    return {
        "figures": figures,
        "curves": curves,
        "steps": int(rows[-1]["step"]) if rows else 0,
        "tokens": sum(float(row["tokens"]) for row in rows),
        "seconds": _logged_seconds(rows),
    }


def _logged_seconds(rows: list[dict[str, str]]) -> float:
    """What the logged steps took; that of an interrupted training is what it would have been."""
    return sum(float(row["tokens"]) / float(row["tokens_per_second"]) for row in rows)


def _best_row(rows: list[dict[str, str]], watched: str, metric: str, kit: Kit) -> dict[str, str]:
    """The measurement whose weights were kept."""
    measured = [row for row in rows if row.get(watched)]
    if not measured:
        return {}
    lower = metric == "loss" or getattr(kit.registry.find("metric", metric).component, "lower_is_better", True)
    sign = 1 if lower else -1
    return min(measured, key=lambda row: sign * float(row[watched]))


def _thinned(points: list[tuple[int, float]], most: int = 200) -> list[tuple[int, float]]:
    """Means of neighbours, so that a long training makes no long file."""
    size = -(-len(points) // most) if points else 1
    groups = [points[at : at + size] for at in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _looks(run: RunDirectory, prepared: Prepared, kit: Kit, asked: Asked) -> Iterable[tuple[Any, Any]]:
    """What the measures find, before and after training."""
    for moment in [each for each in ("start", "end") if each in asked.when]:
        if moment == "end":
            load_weights(prepared.model, kept_weights(run))
        else:
            start_parts(prepared.model)
        prefix = BEFORE if moment == "start" and "end" in asked.when else ""
        for options in asked.measures:
            component: Any = kit.registry.of_options(type(options)).component
            name = prefix + component.part_name()
            found = look(component(options), prepared)
            figures = {f"{name}.{key}": float(value) for key, value in found.figures.items()}
            yield figures, [asdict(each) | {"measure": name} for each in found.series]


def look(measure: Measure, prepared: Prepared) -> Measured:
    """What a measure finds of a model that is ready; random generators are left as they were."""

    def batches(split: Split, most: int) -> Iterable[Batch]:
        return prepared.feeds.held_out(split, prepared.training.batch_tokens, most).batches()

    subject = Subject(
        prepared.model.eval(),
        prepared.recipe,
        prepared.data,
        prepared.objective,
        prepared.tokenizers.source,
        batches,
        prepared.training.seed,
    )
    with randomness.untouched():
        torch.manual_seed(prepared.training.seed)
        found = measure.measure(subject)
    prepared.model.zero_grad(set_to_none=True)
    return found


def _lock(run: RunDirectory, prepared: Prepared, kit: Kit) -> None:
    """What a cell that trains nothing was made with."""
    data = {prepared.data.part_name(): prepared.data.fingerprint()}
    prepared.tokenizers.save(run.tokenizer)
    parts = used_parts(prepared.recipe, kit.registry, [prepared.objective.options])
    Lock.current(plugin_sources(kit.plugins), seed=prepared.training.seed, data=data, parts=parts).write(run.lock)
