"""Reads a study file with the reader of recipes: strict, all mistakes at once, each with its line."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from kit.errors import KitError, Problem, RecipeError
from kit.recipe.bind import bind
from kit.recipe.explain import explain
from kit.recipe.nodes import MappingNode, locate, to_plain
from kit.recipe.overrides import apply_overrides
from kit.recipe.yaml_reader import LARGEST, read_yaml
from kit.studying.sections import StudySection

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.recipe.sections import Recipe
    from kit.registry import Registry

TRIAL = "trial"
"""What takes the place of an axis in a search."""
OWN = "study."
"""Starts the paths that change the study itself, for one label of an axis, and not its recipe."""
CHANGEABLE = ("measures", "when", "sweep", "quick.sweep")
"""What a label may change of a study; the rest is the same for all, or nothing could be compared."""


@dataclass(frozen=True)
class Study:
    """A study that is right as far as its own words go."""

    section: StudySection
    path: Path
    root: MappingNode
    quick: bool = False

    @property
    def name(self) -> str:
        """What its folder is called."""
        return f"{self.section.name}-quick" if self.quick else self.section.name

    @property
    def folder(self) -> Path:
        """Where the relative paths of its recipe start."""
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
        """The axis whose values are compared."""
        if self.section.search is not None:
            return TRIAL
        return self.section.compare or next(iter(self.section.axes), None)

    def base_label(self) -> str | None:
        """The label that the others are compared with: the base of the study, or the first that is kept."""
        labels = self.labels()
        kept = list(labels.get(self.compared or "", ()))
        return self.section.base if self.section.base in kept else next(iter(kept), None)

    def labels(self) -> dict[str, dict[str, dict[str, Any]]]:
        """What each label of each axis sets; in a quick study, only of those that are kept."""
        kept = self.section.quick.axes if self.quick else {}
        found = {}
        for name, axis in self.section.axes.items():
            changes = axis.changes()
            mine = kept.get(name, list(changes))
            over = mine if isinstance(mine, dict) else {}
            found[name] = {label: {**changes[label], **over.get(label, {})} for label in mine}
        return found

    def changed(self, changes: Mapping[str, Any], registry: Registry) -> StudySection:
        """The section with changes that a label makes to the study itself."""
        if not changes:
            return self.section
        bound = bind(StudySection, registry)
        return _validated(apply_overrides(self.root, overrides_of(changes), bound), bound)

    def recipe(self, changes: Mapping[str, Any], kit: Kit, last: Mapping[str, Any] | None = None) -> Recipe:
        """The base recipe with the study's changes, then these, then those of a quick study, then the last."""
        quick = self.section.quick.changes if self.quick else {}
        laid: list[str] = []
        for each in (self.section.changes, changes, quick, last or {}):
            laid += overrides_of({path: value for path, value in each.items() if not path.startswith(OWN)})
        return kit.recipe(self.recipe_path, laid)


def read_study(path: Path | str, registry: Registry, *, quick: bool = False) -> Study:
    """The study in a file; raises RecipeError with everything that is wrong."""
    path = Path(path)
    bound = bind(StudySection, registry)
    root = read_yaml(_bytes(path), str(path))
    study = Study(_validated(root, bound), path, root, quick)
    problems = [_located(root, problem) for problem in _problems(study, registry)]
    if problems:
        raise RecipeError(problems)
    return study


def overrides_of(changes: Mapping[str, Any]) -> list[str]:
    """Changes as the command line would give them."""
    return [f"{path.removeprefix(OWN)}={json.dumps(value)}" for path, value in changes.items()]


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        names = sorted(file.name for file in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, names, 1)
        hint = f"\n    did you mean {path.parent / near[0]}?" if near else ""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise KitError(f"the study {path} cannot be read: {reason}{hint}") from None


def _validated(root: MappingNode, bound: type[StudySection]) -> StudySection:
    data = to_plain(root)
    try:
        return bound.model_validate(data)
    except ValidationError as error:
        found = explain(error.errors(include_url=False), bound, data)
        raise RecipeError([_located(root, problem) for problem in found]) from None


def _located(root: MappingNode, problem: Problem) -> Problem:
    place = locate(root, problem.path)
    return problem if problem.source else replace(problem, source=place.source, line=place.line)


def _problems(study: Study, registry: Registry) -> Iterator[Problem]:
    """What no single section can know."""
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
