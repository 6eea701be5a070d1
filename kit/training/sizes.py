"""What keeps a run from going on with changes: a model of other sizes or parts than its weights were made with."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from kit.errors import KitError
from kit.explaining.difference import MISSING, Change, changes
from kit.model.assembly import Assembly
from kit.model.blueprint import blueprint
from kit.recipe.dump import to_data
from kit.recipe.sections import Recipe, Vocabularies
from kit.runs.directory import RunDirectory, RunError
from kit.training.preparing import Prepared

if TYPE_CHECKING:
    from kit.kit import Kit

_MISMATCH = "Error(s) in loading state_dict"
"""How torch begins what it says of weights that do not fit."""


@contextmanager
def fitting(run: RunDirectory, prepared: Prepared, kit: Kit) -> Iterator[None]:
    """Weights of the run are loaded within; where they do not fit, RunError names the changes that are the cause."""
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
        guilty = _resizing(found, before, prepared, kit) or found
        raise RunError(
            f"{run.path} cannot go on with {_said([(it.path, it.after) for it in guilty])}: "
            f"its weights were made with {_said([(it.path, it.before) for it in guilty])}\n"
            "    the parts and sizes of a model stay while a run goes on: leave that out, "
            "or begin a new run with kit train"
        ) from error


def _resizing(found: Sequence[Change], before: Recipe, prepared: Prepared, kit: Kit) -> list[Change]:
    """Those changes that alone make weights of other names or shapes, or that cannot be alone."""
    old = _shapes(before, prepared, kit)
    guilty = []
    for change in found:
        value = "null" if change.after == MISSING else json.dumps(change.after)
        try:
            same = _shapes(kit.recipe(before, [f"{change.path}={value}"]), prepared, kit) == old
        except KitError:
            same = False
        if not same:
            guilty.append(change)
    return guilty


def _shapes(recipe: Recipe, prepared: Prepared, kit: Kit) -> dict[str, torch.Size]:
    tokenizers = prepared.tokenizers
    sizes = Vocabularies(source=tokenizers.source.size, target=tokenizers.target.size)
    with blueprint():
        model = Assembly(kit.registry).model(recipe.model, sizes, tokenizers.symbols())
    return {name: value.shape for name, value in model.state_dict().items()}


def _said(values: Sequence[tuple[str, object]]) -> str:
    return " and ".join(f"{path}={'null' if value in (None, MISSING) else value}" for path, value in values)
