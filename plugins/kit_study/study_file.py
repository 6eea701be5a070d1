"""Study file: a base recipe, the axes that vary it, and how its variants are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import Problem, RecipeError, SectionDocument
from kit_study.sections import StudySection

if TYPE_CHECKING:
    from kit import Kit, Recipe, Registry

TRIAL = "trial"
"""The name of the axis of a search."""
OWN = "study."
"""The prefix of paths that change the study section, for one label of an axis, instead of the recipe."""
CHANGEABLE = ("measures", "when", "sweep", "quick.sweep")
"""The keys of a study that a label may change; all others must be equal for a fair comparison."""


@dataclass(frozen=True)
class Study:
    """A validated study file."""

    document: SectionDocument[StudySection]
    path: Path
    quick: bool = False

    @property
    def section(self) -> StudySection:
        """The section of the file."""
        return self.document.section

    @property
    def name(self) -> str:
        """The name of its folder."""
        return f"{self.section.name}-quick" if self.quick else self.section.name

    @property
    def folder(self) -> Path:
        """The folder that relative paths of its recipe start from."""
        return self.recipe_path.parent

    @property
    def recipe_path(self) -> Path:
        """The base recipe."""
        return (self.path.parent / self.section.recipe).resolve()

    @property
    def seeds(self) -> list[int]:
        """Every seed."""
        seeds = self.section.quick.seeds if self.quick else self.section.seeds
        return list(range(seeds)) if isinstance(seeds, int) else list(seeds)

    @property
    def compared(self) -> str | None:
        """The axis whose values are compared with each other."""
        if self.section.search is not None:
            return TRIAL
        return self.section.compare or next(iter(self.section.axes), None)

    def base_label(self) -> str | None:
        """Returns the label that the others are compared with: the base of the study, or the first that is kept."""
        labels = self.labels()
        kept = list(labels.get(self.compared or "", ()))
        return self.section.base if self.section.base in kept else next(iter(kept), None)

    def labels(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Returns the changes of each label of each axis; in a quick study, only of the labels that are kept."""
        kept = self.section.quick.axes if self.quick else {}
        found = {}
        for name, axis in self.section.axes.items():
            changes = axis.changes()
            mine = kept.get(name, list(changes))
            over = mine if isinstance(mine, dict) else {}
            found[name] = {label: {**changes[label], **over.get(label, {})} for label in mine}
        return found

    def changed(self, changes: Mapping[str, Any]) -> StudySection:
        """Returns the section with the changes that a label makes to it."""
        return self.document.overridden(overrides_of(changes)) if changes else self.section

    def recipe(self, changes: Mapping[str, Any], kit: Kit, last: Mapping[str, Any] | None = None) -> Recipe:
        """Returns the base recipe with the study's changes, then these, then those of a quick study, then the last."""
        quick = self.section.quick.changes if self.quick else {}
        overrides: list[str] = []
        for each in (self.section.changes, changes, quick, last or {}):
            overrides += overrides_of({path: value for path, value in each.items() if not path.startswith(OWN)})
        return kit.recipe(self.recipe_path, overrides)


def read_study(path: Path | str, registry: Registry, *, quick: bool = False) -> Study:
    """Reads and validates a study file; raises RecipeError with all problems."""
    document = SectionDocument.read(Path(path), StudySection, registry, "study")
    study = Study(document, Path(path), quick)
    problems = [document.located(problem) for problem in _problems(study, registry)]
    if problems:
        raise RecipeError(problems)
    return study


def overrides_of(changes: Mapping[str, Any]) -> list[str]:
    """Changes as command-line overrides."""
    return [f"{path.removeprefix(OWN)}={json.dumps(value)}" for path, value in changes.items()]


def _problems(study: Study, registry: Registry) -> Iterator[Problem]:
    """Errors that involve more than one section."""
    section = study.section
    if not study.recipe_path.is_file():
        yield Problem(f"there is no recipe {study.recipe_path}", ("recipe",), hint="paths start at the study file")
    if section.search is not None and section.axes:
        yield Problem("a search takes the place of axes", ("axes",), hint="leave one of the two out")
    if section.search is not None and section.sweep is not None:
        hint = f"leave sweep out, and add '{section.sweep.path}' to search.space"
        yield Problem("a search and a sweep cannot be had together", ("sweep",), hint=hint)
    if section.search is not None and section.budget.same != "steps":
        found = f"found 'same: {section.budget.same}', but trials of a search have no base to be made equal to"
        yield Problem(found, ("budget",), hint="leave budget out, or compare values with axes in place of search")
    if section.search is None and not section.axes:
        yield Problem("nothing is varied", (), hint="add axes: {width: {path: model.width, values: [32, 64]}}")
    yield from _own_problems(section)
    names = list(section.axes)
    if section.compare is not None and section.compare not in names:
        yield Problem(f"found '{section.compare}', wanted one of the axes: {', '.join(names)}", ("compare",))
        return
    labels = {name: list(axis.changes()) for name, axis in section.axes.items()}
    compared = labels.get(study.compared or "", [])
    if section.base is not None and section.base not in compared:
        yield Problem(f"found '{section.base}', wanted one of {', '.join(compared)}", ("base",))
    for name, kept in section.quick.axes.items():
        for label in kept:
            if label not in labels.get(name, []):
                known = ", ".join(labels[name]) if name in labels else f"an axis: {', '.join(names)}"
                yield Problem(f"found '{label}' of '{name}', wanted {known}", ("quick", "axes", name))
    if "." in section.metric and section.better is None:
        yield Problem(
            "a figure of a measure does not say which way is up", ("metric",), hint="add better: lower (or higher)"
        )
    metrics = ["loss", *registry.names("metric")]
    if "." not in section.metric and section.better is None and section.metric not in metrics:
        hint = f"one of {', '.join(metrics)}; or add better: lower"
        yield Problem(f"there is no metric '{section.metric}'", ("metric",), hint=hint)


def _own_problems(section: StudySection) -> Iterator[Problem]:
    """Paths that start with `study.` where they would change nothing."""
    for path in section.changes:
        if path.startswith(OWN):
            name = path.removeprefix(OWN)
            hint = f"write {name} in the study file itself"
            yield Problem(f"found '{path}', wanted a path of the recipe", ("changes", path), hint=hint)
    places: dict[tuple[str, ...], Mapping[str, Mapping[str, Any]]]
    places = {("axes", name, "values"): axis.changes() for name, axis in section.axes.items()}
    kept = section.quick.axes.items()
    places |= {("quick", "axes", name): labels for name, labels in kept if isinstance(labels, dict)}
    places["quick", "changes"] = {"quick": section.quick.changes}
    for place, labels in places.items():
        for label, changes in labels.items():
            for path in changes:
                name = path.removeprefix(OWN)
                if path.startswith(OWN) and not any(f"{name}.".startswith(f"{known}.") for known in CHANGEABLE):
                    wanted = ", ".join(OWN + known for known in CHANGEABLE)
                    hint = f"{name.partition('.')[0]} is the same for all cells: write it in the study file itself"
                    yield Problem(f"'{label}' sets '{path}', wanted one of {wanted}", place, hint=hint)
    single: dict[tuple[str, ...], str] = {("budget", "adjust"): section.budget.adjust}
    if section.sweep is not None:
        single["sweep", "path"] = section.sweep.path
    if section.search is not None:
        single |= {("search", "space", path): path for path in section.search.space}
    for at, path in single.items():
        if path.startswith(OWN):
            yield Problem(f"found '{path}', wanted a path of the recipe, such as model.width", at)
