"""Trains a recipe: makes it ready, lets Lightning run the steps, and leaves a run that can be used or resumed."""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from kit.memory import keep_memory
from kit.model.families import Model
from kit.recipe.dump import to_yaml
from kit.recipe.sections import Recipe
from kit.runs.claim import claimed
from kit.runs.directory import ROOT, RunDirectory, RunError
from kit.runs.labels import write_labels
from kit.runs.lock import Lock, compare
from kit.runs.parts import Checkpoint
from kit.runs.ranks import Ranks
from kit.runs.retention import Retention
from kit.runs.sources import plugin_sources
from kit.runs.store import CheckpointStore
from kit.runs.used import used_parts
from kit.runs.weights import kept_weights
from kit.training.averaging import Average
from kit.training.choosing import Choices
from kit.training.dividing import told
from kit.training.evaluation import Evaluation
from kit.training.finishing import finish
from kit.training.fitting import fit
from kit.training.group import Group, joined
from kit.training.membership import Member, as_started
from kit.training.module import TrainingModule
from kit.training.origin import read_origin, write_origin
from kit.training.patience import Patience
from kit.training.preparing import Prepared, prepare, start_parts
from kit.training.progress import Reporter, Silent
from kit.training.quiet import silence
from kit.training.saving import Saver
from kit.training.sizes import fitting
from kit.training.strategies import is_sharded
from kit.training.taking_back import taken_back

if TYPE_CHECKING:
    from kit.kit import Kit


@dataclass(frozen=True)
class Result:
    """What a training came to."""

    run: RunDirectory
    step: int
    steps: int
    ending: Literal["finished", "stopped early", "interrupted"]
    seconds: float
    """How long this process trained, without getting ready."""
    evaluation: Evaluation | None = None
    """What the weights that were kept measure on the test split, or on validation where there is no test."""
    signal: int = 0
    """What interrupted it."""
    nothing_left: bool = False
    """Whether the run was over before, so that no step was made."""


def train(
    recipe: Recipe,
    kit: Kit,
    run: RunDirectory | None = None,
    *,
    folder: Path | None = None,
    reporter: Reporter | None = None,
    root: Path = ROOT,
) -> Result:
    """Train a recipe in a new run, or go on with one that has checkpoints.

    run: a folder to train in; left out, a new one under `root`. folder: where the recipe's relative paths start.
    """
    silence()
    torch.set_flush_denormal(True)  # numbers too small to matter would slow a CPU down many times
    keep_memory()
    reporter = reporter or Silent()
    if (member := Member.found()) is not None:
        recipe = as_started(recipe, member)
    begun, training, text = run, Choices(recipe, kit.registry).training, to_yaml(recipe, kit.registry)
    with taken_back(reporter.say) as start, joined(training, text, reporter.say) as group:
        reporter = reporter if group.first else Silent()
        run = RunDirectory(group.shared_folder(lambda: (begun or start.made(new_run(recipe, kit, folder, root))).path))
        reporter.say(str(run.path))
        folder = folder or read_origin(run)
        with claimed(run) if group.first else nullcontext():
            with group.first_then_rest():
                prepared = prepare(recipe, kit, folder, saved_tokenizer=run.tokenizer)
                lock = _lock(run, prepared, kit, reporter)
            return _train(run, prepared, kit, lock.run, reporter, group)


def new_run(recipe: Recipe, kit: Kit, folder: Path | None = None, root: Path = ROOT) -> RunDirectory:
    """A folder to train a recipe in, with all that `kit resume` needs."""
    run = RunDirectory.create(recipe.name, root)
    write_origin(run, folder)
    run.write(run.recipe, to_yaml(recipe, kit.registry))
    return run


def _lock(run: RunDirectory, prepared: Prepared, kit: Kit, reporter: Reporter) -> Lock:
    """What the run is made with; where it was begun with something else, that is said."""
    data = {prepared.data.part_name(): prepared.data.fingerprint(), "tokenizers": prepared.tokenizers.fingerprint()}
    parts = used_parts(prepared.recipe, kit.registry, [prepared.objective.options])
    current = Lock.current(plugin_sources(kit.plugins), seed=prepared.training.seed, data=data, parts=parts)
    if not run.lock.is_file():
        prepared.tokenizers.save(run.tokenizer)
        write_labels(run, prepared.data.labels())
        current.write(run.lock)
        return current
    lock = Lock.read(run.lock)
    for difference in compare(lock, current):
        reporter.say(f"not as when the run began: {difference}")
    return lock


def _train(run: RunDirectory, prepared: Prepared, kit: Kit, identity: str, reporter: Reporter, group: Group) -> Result:
    training = prepared.training
    metric = prepared.metrics.get(training.metric)
    lower = metric.lower_is_better if metric is not None else True
    averaged = training.average
    last = (averaged.last if averaged is not None else None) or 0
    retention = Retention(training.keep, lower_is_better=lower, regular=last, every=training.checkpoint_every)
    store = CheckpointStore(run.checkpoints, identity, retention, Ranks.current())
    with group.first_then_rest():
        if group.first:
            store.tidy()
    model = prepared.model
    begun = run.weights.is_file() and not store.steps()  # a run that was made of another one's weights
    resumed = _newest(store, group)
    if begun:
        with fitting(run, prepared, kit):
            _begin_from(run, model)
    elif resumed is None:
        start_parts(model)
    if training.tensor > 1:
        reporter.say(told(model, training.tensor))
    choices = prepared.choices
    module = TrainingModule(model, prepared.objective, choices.optimizer(), choices.schedule(), training)
    average = Average(model, averaged.ema) if averaged is not None and averaged.ema is not None else None
    saver = Saver(store, module, Patience(training.metric, lower, training.patience), average)
    if resumed is not None:
        with fitting(run, prepared, kit):
            saver.restore_weights(resumed)
    began = time.monotonic()
    keep = partial(_keep, run, to_yaml(prepared.recipe, kit.registry)) if group.first else None
    after = fit(run, prepared, kit, saver, reporter, resumed, group, keep)
    seconds = time.monotonic() - began
    if after is not None and (module.stopping or after.interruption.asked()):
        number = after.interruption.received or signal.SIGTERM  # another process may be the one that was asked
        return Result(run, module.step, training.steps, "interrupted", seconds, signal=number)
    ending: Literal["finished", "stopped early"] = "finished" if module.step >= training.steps else "stopped early"
    group.leave()
    over = after is None
    if not group.first:
        return Result(run, module.step, training.steps, ending, seconds, nothing_left=over)
    if is_sharded(training, group.member):
        prepared = prepared.with_new_model(kit)  # whole, for one process alone
    evaluation = finish(run, prepared, store, reporter, module.step)
    return Result(run, module.step, training.steps, ending, seconds, evaluation, nothing_left=over)


def _keep(run: RunDirectory, recipe: str) -> None:
    """A run that goes on with changes has them from then on, so that it can be interrupted and resumed as any other."""
    if not run.recipe.is_file() or run.recipe.read_text() != recipe:
        run.write(run.recipe, recipe)


def _begin_from(run: RunDirectory, model: Model) -> None:
    """Load the weights that a run was made with; regularizers that are new to it begin as they do."""
    missing, unknown = model.load_state_dict(kept_weights(run), strict=False)
    missing = [name for name in missing if not name.startswith("regularizers.")]
    if missing or unknown:
        raise RunError(
            f"the weights in {run.weights} are not those of this recipe: "
            f"{len(missing)} are missing and {len(unknown)} unknown, such as {(missing + unknown)[0]}"
        )


def _newest(store: CheckpointStore, group: Group) -> Checkpoint | None:
    """What to go on from, the same on all processes; the first looks, and says what is wrong with it where it is."""
    found = store.load_latest() if group.first and store.steps() else None
    step = group.shared(lambda: "" if found is None else str(found.step))
    return store.load(int(step)) if step and found is None else found
