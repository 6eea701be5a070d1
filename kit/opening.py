"""A run opened for use: its model with the weights that were kept, its tokenizers, and what it was made with.

A run is all that is needed: it can be opened on another machine, without the data it was trained on.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from kit.data.tokenizing import Tokenizers
from kit.devices import device_called
from kit.errors import KitError
from kit.model.families import Model
from kit.recipe.sections import Recipe, Vocabularies
from kit.runs.directory import ROOT, RunDirectory, RunError
from kit.runs.labels import read_labels
from kit.runs.lock import Lock, compare
from kit.runs.retention import Retention
from kit.runs.sources import plugin_sources
from kit.runs.store import CheckpointStore
from kit.runs.used import parts_here
from kit.runs.weights import kept_weights
from kit.training.choosing import Choices
from kit.training.finishing import averaged_weights
from kit.training.origin import read_origin

if TYPE_CHECKING:
    from kit.kit import Kit


class DifferentRunWarning(UserWarning):
    """Something here is not as it was when the run was made."""


@dataclass(frozen=True)
class OpenedRun:
    """A model that was trained, ready to be used; it is in evaluation mode."""

    run: RunDirectory
    kit: Kit
    choices: Choices
    tokenizers: Tokenizers
    model: Model
    labels: tuple[str, ...]
    """The classes by their numbers, where the data had classes."""
    differences: Sequence[str]
    """How what is installed differs from what the run was made with, a sentence each."""

    @property
    def recipe(self) -> Recipe:
        """The recipe, with everything resolved."""
        return self.choices.recipe

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device


def open_run(
    run: str | Path | RunDirectory, kit: Kit | None = None, *, device: str | None = None, root: Path = ROOT
) -> OpenedRun:
    """Open a run by its folder, its name and number, or its name (the newest).

    device: where the model goes; left out, a GPU where there is one. What differs from when the run was made is warned
    about (`DifferentRunWarning`); a part that is missing is an error that names what to install.
    """
    if kit is None:
        from kit.kit import Kit as NewKit

        kit = NewKit()
    place = device_called(device)
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
    choices = Choices(recipe, kit.registry, read_origin(found))
    tokenizers = choices.tokenizers()
    tokenizers.load(found.tokenizer)
    sizes = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
    model = kit.build(recipe, sizes, tokenizers.symbols())
    model.load_state_dict(_weights(found, choices, model))
    model.eval().requires_grad_(False).to(place)
    return OpenedRun(found, kit, choices, tokenizers, model, read_labels(found), differences)


def lock_differences(run: RunDirectory, kit: Kit) -> list[str]:
    """How what is installed differs from what a run was made with, a sentence each."""
    lock = Lock.read(run.lock)
    here = parts_here(lock.parts, kit.registry)
    return compare(lock, Lock.current(plugin_sources(kit.plugins), seed=lock.seed, parts=here))


def _weights(run: RunDirectory, choices: Choices, model: Model) -> Mapping[str, Tensor]:
    """Those that were kept at the end; of a run that has not ended, those of its best checkpoint, else its last."""
    if run.weights.is_file():
        return kept_weights(run)
    metric = choices.metrics().get(choices.training.metric)
    retention = Retention(lower_is_better=metric is None or metric.lower_is_better)
    return averaged_weights(model, CheckpointStore(run.checkpoints, Lock.read(run.lock).run, retention).load_best())
