"""The cells of a study: every combination of labels, with its recipe and the folder that its run is in."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from kit.recipe.bind import bind
from kit.recipe.dump import to_data, to_yaml
from kit.recipe.section import Section
from kit.runs.directory import RunDirectory
from kit.slots import MeasureSlot
from kit.studying.reading import OWN, Study, overrides_of
from kit.studying.sections import StudySection
from kit.training.origin import write_origin

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.recipe.sections import Recipe

ABOUT = "cell.json"
LONGEST_NAME = 80


class Asked(Section):
    """What is to be found out about a cell besides its metrics."""

    measures: list[MeasureSlot] = Field(default_factory=list)
    when: list[Literal["start", "end"]] = Field(default=["end"])


@dataclass(frozen=True)
class Combination:
    """One value of every axis: what is trained, but for the seed and the swept rate."""

    labels: Mapping[str, str]
    """The label of each axis."""
    changes: Mapping[str, Any]
    """What these labels put into the recipe."""
    section: StudySection
    """The study as these labels want it."""
    adjusted: Mapping[str, Any] = field(default_factory=dict)
    """What the budget puts into the recipe, over everything else."""
    known: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """What came of each seed on another machine, where machines share a search."""
    trouble: str | None = None
    """Why it failed there."""

    @property
    def title(self) -> str:
        """The labels in a line."""
        return " · ".join(self.labels.values()) or "all"

    def condition(self, compared: str | None) -> tuple[tuple[str, str], ...]:
        """Its labels on all axes but the one that is compared."""
        return tuple((name, label) for name, label in self.labels.items() if name != compared)

    def recipe(self, study: Study, kit: Kit, last: Mapping[str, Any] | None = None) -> Recipe:
        """Its recipe, with what is laid over it last."""
        return study.recipe(self.changes, kit, {**self.adjusted, **(last or {})})

    def with_adjusted(self, adjusted: Mapping[str, Any]) -> Combination:
        """The same as the budget wants it."""
        return replace(self, adjusted=adjusted)


@dataclass(frozen=True)
class Cell:
    """One run: a combination with a seed, and a value of the sweep where there is one."""

    combination: Combination
    seed: int
    recipe: Recipe
    folder: Path
    """Where its run is."""
    swept: float | None = None

    @property
    def digest(self) -> str:
        """Of all that its result depends on: the recipe with its rate, steps and seed, and what is asked about it."""
        return self.folder.name.rpartition("-")[2]

    @property
    def title(self) -> str:
        """What a person reads while it runs."""
        swept = "" if self.swept is None else f" · {self.swept:g}"
        return f"{self.combination.title}{swept} · seed {self.seed}"


def combinations(study: Study, kit: Kit) -> list[Combination]:
    """Every combination of labels, in the order of the file."""
    labels = study.labels()
    found = []
    for chosen in itertools.product(*labels.values()):
        named = dict(zip(labels, chosen, strict=True))
        merged: dict[str, Any] = {}
        for name, label in named.items():
            merged |= labels[name][label]
        quick = study.section.quick.changes if study.quick else {}
        own = {path: value for path, value in {**merged, **quick}.items() if path.startswith(OWN)}
        rest = {path: value for path, value in merged.items() if not path.startswith(OWN)}
        found.append(Combination(named, rest, study.changed(own, kit.registry)))
    return found


def cell_of(
    study: Study, kit: Kit, combination: Combination, seed: int, root: Path, swept: float | None = None
) -> Cell:
    """The run of a combination with a seed. Its folder's name changes with anything that its result depends on."""
    last: dict[str, Any] = {"training.seed": seed}
    sweep = combination.section.sweep
    if swept is not None and sweep is not None:
        last[sweep.path] = swept
    recipe = combination.recipe(study, kit, last)
    asked = asked_of(combination, kit)
    # What is as it would be anyway is left out, so that an option that is new to a part makes no cell another one.
    content = [to_yaml(recipe, kit.registry, compact=True), asked["measures"], asked["when"]]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
    words = [*combination.labels.values(), *([f"{swept:g}"] if swept is not None else []), f"seed{seed}"]
    slug = re.sub(r"[^\w.=+-]+", "_", "-".join(words))[:LONGEST_NAME]
    return Cell(combination, seed, recipe, root / study.name / "cells" / f"{slug}-{digest}", swept)


def asked_of(combination: Combination, kit: Kit) -> dict[str, Any]:
    """What is to be found out about a cell of a combination, as plain data."""
    section: Any = Asked(measures=combination.section.measures, when=combination.section.when)
    return to_data(section, kit.registry)


def write_cell(cell: Cell, study: Study, kit: Kit) -> None:
    """Make the folder of a cell, with all that is needed to run it anywhere."""
    run = RunDirectory(cell.folder)
    for folder in (run.tokenizer, run.checkpoints, run.reports):
        folder.mkdir(parents=True, exist_ok=True)
    about = {
        "labels": dict(cell.combination.labels),
        "seed": cell.seed,
        "swept": cell.swept,
        "changes": overrides_of({**cell.combination.changes, **cell.combination.adjusted}),
        "asked": asked_of(cell.combination, kit),
    }
    write_origin(run, study.folder)
    run.write(cell.folder / ABOUT, json.dumps(about, indent=2) + "\n")
    run.write(run.recipe, to_yaml(cell.recipe, kit.registry))


def read_asked(folder: Path, kit: Kit) -> Asked:
    """What is to be found out about the cell in a folder."""
    data = json.loads((folder / ABOUT).read_text())["asked"]
    return bind(Asked, kit.registry).model_validate(data)
