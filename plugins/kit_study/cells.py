"""The cells of a study: every combination of labels and seed, with its recipe and the folder of its run."""

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

from kit import MeasureSlot, RunDirectory, Section, bind, to_data, to_yaml, write_origin
from kit_study.sections import StudySection
from kit_study.study_file import OWN, Study, overrides_of

if TYPE_CHECKING:
    from kit import Kit, Recipe

CELL_FILE = "cell.json"
MAX_NAME_LENGTH = 80


class CellMeasures(Section):
    """The measures of a cell besides its metrics, and when they are taken."""

    measures: list[MeasureSlot] = Field(default_factory=list)
    when: list[Literal["start", "end"]] = Field(default=["end"])


@dataclass(frozen=True)
class Combination:
    """One label of every axis: a variant of the recipe, without seed and swept value."""

    labels: Mapping[str, str]
    """The label of each axis."""
    changes: Mapping[str, Any]
    """The changes of these labels to the recipe."""
    section: StudySection
    """The study section with the changes of these labels."""
    adjusted: Mapping[str, Any] = field(default_factory=dict)
    """The changes of the budget, which override all others."""
    known: Mapping[int, dict[str, Any]] = field(default_factory=dict)
    """Results by seed from another machine that shares the search."""
    failure: str | None = None
    """The error message from that machine."""

    @property
    def title(self) -> str:
        """The labels in one line."""
        return " · ".join(self.labels.values()) or "all"

    def condition(self, compared: str | None) -> tuple[tuple[str, str], ...]:
        """Returns the labels on all axes except the compared one."""
        return tuple((name, label) for name, label in self.labels.items() if name != compared)

    def recipe(self, study: Study, kit: Kit, last: Mapping[str, Any] | None = None) -> Recipe:
        """Returns the recipe; `last` overrides all other changes."""
        return study.recipe(self.changes, kit, {**self.adjusted, **(last or {})})

    def with_adjusted(self, adjusted: Mapping[str, Any]) -> Combination:
        """Returns the combination with the changes of the budget."""
        return replace(self, adjusted=adjusted)


@dataclass(frozen=True)
class Cell:
    """One run: a combination with a seed, and a value of the sweep where there is one."""

    combination: Combination
    seed: int
    recipe: Recipe
    folder: Path
    """The run directory."""
    swept: float | None = None

    @property
    def digest(self) -> str:
        """The digest of everything that the result depends on: recipe, swept value, seed and measures."""
        return self.folder.name.rpartition("-")[2]

    @property
    def title(self) -> str:
        """The name in progress messages."""
        swept = "" if self.swept is None else f" · {self.swept:g}"
        return f"{self.combination.title}{swept} · seed {self.seed}"


def combinations(study: Study, kit: Kit) -> list[Combination]:
    """Returns every combination of labels, in the order of the file."""
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
        found.append(Combination(named, rest, study.changed(own)))
    return found


def cell_of(
    study: Study, kit: Kit, combination: Combination, seed: int, root: Path, swept: float | None = None
) -> Cell:
    """Returns the cell of a combination with a seed; the folder name ends with the digest of recipe and measures."""
    last: dict[str, Any] = {"training.seed": seed}
    sweep = combination.section.sweep
    if swept is not None and sweep is not None:
        last[sweep.path] = swept
    recipe = combination.recipe(study, kit, last)
    measures = measures_of(combination, kit)
    # Default values are left out, so that a new option of a part does not change the digest.
    content = [to_yaml(recipe, kit.registry, compact=True), measures["measures"], measures["when"]]
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:10]
    words = [*combination.labels.values(), *([f"{swept:g}"] if swept is not None else []), f"seed{seed}"]
    slug = re.sub(r"[^\w.=+-]+", "_", "-".join(words))[:MAX_NAME_LENGTH]
    return Cell(combination, seed, recipe, root / study.name / "cells" / f"{slug}-{digest}", swept)


def measures_of(combination: Combination, kit: Kit) -> dict[str, Any]:
    """Returns the measures of a combination and when they are taken, as plain data."""
    section: Any = CellMeasures(measures=combination.section.measures, when=combination.section.when)
    return to_data(section, kit.registry)


def write_cell(cell: Cell, study: Study, kit: Kit) -> None:
    """Writes the run directory of a cell, with everything that is needed to run it."""
    run = RunDirectory(cell.folder)
    for folder in (run.tokenizer, run.checkpoints, run.reports):
        folder.mkdir(parents=True, exist_ok=True)
    about = {
        "labels": dict(cell.combination.labels),
        "seed": cell.seed,
        "swept": cell.swept,
        "changes": overrides_of({**cell.combination.changes, **cell.combination.adjusted}),
        "cell_measures": measures_of(cell.combination, kit),
    }
    write_origin(run, study.folder)
    run.write(cell.folder / CELL_FILE, json.dumps(about, indent=2) + "\n")
    run.write(run.recipe, to_yaml(cell.recipe, kit.registry))


def read_measures(folder: Path, kit: Kit) -> CellMeasures:
    """Reads the measures of the cell in a folder."""
    data = json.loads((folder / CELL_FILE).read_text())["cell_measures"]
    return bind(CellMeasures, kit.registry).model_validate(data)
