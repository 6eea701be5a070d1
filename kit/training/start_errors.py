"""Errors at the start of a training: weights that do not match the model, and runs that fail before a first step."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from kit.distributed.rank_info import ProcessMissing
from kit.errors import KitError
from kit.files import atomic_folder
from kit.model.builder import ModelBuilder, meta_init
from kit.recipe.difference import MISSING, Change, changes
from kit.recipe.dump import to_data
from kit.recipe.sections import Recipe, Vocabularies
from kit.runs.metrics_file import MetricsFile
from kit.runs.run_directory import RunDirectory, RunError, is_run_claimed
from kit.training.preparation import PreparedTraining

if TYPE_CHECKING:
    from kit.kit import Kit


_MISMATCH = "Error(s) in loading state_dict"
"""The beginning of torch's message about weights that do not match."""


@contextmanager
def explain_mismatch(run: RunDirectory, prepared: PreparedTraining, kit: Kit) -> Iterator[None]:
    """Load the run's weights inside; where they do not match the model, RunError names the changed options to blame."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith(_MISMATCH):
            raise
        before = kit.recipe(run.recipe)
        found = [
            change
            for change in changes(to_data(before, kit.registry), to_data(prepared.recipe, kit.registry))
            if change.path.startswith("model.")
        ]
        if not found:
            detail = str(error).splitlines()[1].strip()
            raise RunError(
                f"the weights of {run.path} are not those of its recipe: {detail}\n"
                f"    the plugins or the data are not as they were; kit check --locked {run.label} says what differs"
            ) from error
        culprits = _changes_of_shape(found, before, prepared, kit) or found
        raise RunError(
            f"{run.path} cannot go on with {_listed([(it.path, it.after) for it in culprits])}: "
            f"its weights were made with {_listed([(it.path, it.before) for it in culprits])}\n"
            "    the parts and sizes of a model stay while a run goes on: leave that out, "
            "or begin a new run with kit train"
        ) from error


def _changes_of_shape(found: Sequence[Change], before: Recipe, prepared: PreparedTraining, kit: Kit) -> list[Change]:
    """The changes that alone give weights other names or shapes, or that make no valid recipe alone."""
    old = _shapes(before, prepared, kit)
    culprits = []
    for change in found:
        value = "null" if change.after == MISSING else json.dumps(change.after)
        try:
            same = _shapes(kit.recipe(before, [f"{change.path}={value}"]), prepared, kit) == old
        except KitError:
            same = False
        if not same:
            culprits.append(change)
    return culprits


def _shapes(recipe: Recipe, prepared: PreparedTraining, kit: Kit) -> dict[str, torch.Size]:
    tokenizers = prepared.tokenizers
    sizes = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
    with meta_init():
        model = ModelBuilder(kit.registry).model(recipe.model, sizes, tokenizers.symbols())
    return {name: value.shape for name, value in model.state_dict().items()}


def _listed(values: Sequence[tuple[str, object]]) -> str:
    return " and ".join(f"{path}={'null' if value in (None, MISSING) else value}" for path, value in values)


@dataclass
class CreatedRun:
    """The run directory that this process created for a training."""

    run: RunDirectory | None = None
    """None where it created none: another rank did, or a run is resumed."""

    def note(self, run: RunDirectory) -> RunDirectory:
        """Note the directory, and return it."""
        self.run = run
        return run


@contextmanager
def rollback_run_on_failure(say: Callable[[str], None]) -> Iterator[CreatedRun]:
    """Remove the run directory that was created inside, if the training fails before its first step."""
    created = CreatedRun()
    try:
        yield created
    except ProcessMissing:
        raise  # the run is intact, and can be resumed once the process is back
    except Exception:
        if created.run is not None and _is_untouched(created.run):
            try:
                atomic_folder.remove(created.run.path)
                with suppress(OSError):  # there are other runs of that name
                    created.run.path.parent.rmdir()
            except OSError as problem:
                say(f"{created.run.path} holds nothing, and cannot be removed: {problem.strerror}")
            else:
                say(f"{created.run.path} is removed again: nothing was trained")
        raise


def _is_untouched(run: RunDirectory) -> bool:
    """Whether the run holds no step, no checkpoint and no weights, and no other process trains it."""
    if not run.path.is_dir() or run.weights.exists() or is_run_claimed(run.path):
        return False
    return not any(run.checkpoints.iterdir()) and not MetricsFile(run.metrics).rows()
