"""Loading of a run: the model with its weights, the tokenizers, and the differences from the installed versions.

A run directory can be loaded on another machine, without the training data.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kit.checkpoints.store import CheckpointStore, Retention
from kit.data.tokenizers import Tokenizers
from kit.errors import KitError
from kit.kernels.devices import device_called
from kit.model.families import Model
from kit.recipe.parts import RecipeParts
from kit.recipe.sections import Recipe, Vocabularies
from kit.runs.lock import Lock, compare
from kit.runs.provenance import parts_here, plugin_sources
from kit.runs.run_directory import ROOT, RunDirectory, RunError, read_labels, read_origin
from kit.runs.weights import read_weights
from kit.training.weight_averaging import averaged_weights

if TYPE_CHECKING:
    from kit.kit import Kit


class DifferentRunWarning(UserWarning):
    """The installed software differs from the lock of the run."""


@dataclass(frozen=True)
class LoadedRun:
    """A trained model in evaluation mode, without gradients, with its recipe and tokenizers."""

    run: RunDirectory
    kit: Kit
    parts: RecipeParts
    tokenizers: Tokenizers
    model: Model
    labels: tuple[str, ...]
    """The names of the classes; empty if the data has none."""
    differences: Sequence[str]
    """The differences between the installed software and the lock of the run, a sentence each."""

    @property
    def recipe(self) -> Recipe:
        """The resolved recipe of the run."""
        return self.parts.recipe

    @property
    def device(self) -> torch.device:
        """The device of the model."""
        return next(self.model.parameters()).device


def load_run(
    run: str | Path | RunDirectory, kit: Kit | None = None, *, device: str | None = None, root: Path = ROOT
) -> LoadedRun:
    """Loads a run by its folder, its name and number, or its name (the newest).

    device: of the model; default: a GPU if there is one. Differences from the lock of the run are warnings
    (`DifferentRunWarning`); the error for a part that is missing names what to install.
    """
    if kit is None:
        from kit.kit import Kit as NewKit

        kit = NewKit()
    model_device = device_called(device)
    found = run if isinstance(run, RunDirectory) else RunDirectory.open(run, root)
    differences = lock_differences(found, kit)
    try:
        recipe = kit.recipe(found.recipe)
    except KitError as error:
        missing = [difference for difference in differences if "is not here" in difference]
        if missing:
            raise RunError(f"the run {found.label} cannot be opened here: {'; '.join(missing)}") from error
        raise
    for difference in differences:
        warnings.warn(f"not as when {found.label} was made: {difference}", DifferentRunWarning, stacklevel=2)
    parts = RecipeParts(recipe, kit.registry, read_origin(found))
    tokenizers = parts.tokenizers()
    tokenizers.load(found.tokenizer)
    sizes = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
    model = kit.build(recipe, sizes, tokenizers.symbols())
    model.load_state_dict(_weights(found, parts, model))
    model.eval().requires_grad_(False).to(model_device)
    return LoadedRun(found, kit, parts, tokenizers, model, read_labels(found), differences)


def lock_differences(run: RunDirectory, kit: Kit) -> list[str]:
    """Compares the installed software with the lock of a run; returns a sentence for each difference."""
    lock = Lock.read(run.lock)
    here = parts_here(lock.parts, kit.registry)
    return compare(lock, Lock.current(plugin_sources(kit.plugins), seed=lock.seed, parts=here))


def _weights(run: RunDirectory, parts: RecipeParts, model: Model) -> Mapping[str, Tensor]:
    """Reads the final weights; those of the best checkpoint, else of the last, if training has not ended."""
    if run.weights.is_file():
        return read_weights(run)
    metric = parts.metrics().get(parts.training.metric)
    retention = Retention(lower_is_better=metric is None or metric.lower_is_better)
    return averaged_weights(model, CheckpointStore(run.checkpoints, Lock.read(run.lock).run, retention).load_best())
