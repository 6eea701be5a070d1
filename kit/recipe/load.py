"""Loads a recipe: reads it, lays overrides over it, checks it against what is installed, and keeps every place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from kit.errors import Problem, RecipeError
from kit.recipe.bind import bind
from kit.recipe.bound import set_fields
from kit.recipe.explain import MissingKey, UnknownKey, explain
from kit.recipe.extends import extended, read_file
from kit.recipe.nodes import MappingNode, Path, Place, from_plain, locate, to_plain
from kit.recipe.overrides import apply_overrides
from kit.recipe.sections import Recipe
from kit.recipe.tree_builder import ENOUGH
from kit.recipe.yaml_reader import read_yaml
from kit.registry import Registry


@dataclass(frozen=True)
class Loaded:
    """A recipe that is right as far as its own words go, and where each of them was written."""

    recipe: Recipe
    root: MappingNode

    def locate(self, path: Path) -> tuple[str | None, int | None]:
        """The source and line of the value at a path, or of its nearest ancestor that was written."""
        place = locate(self.root, path)
        return place.source, place.line

    def locate_problem(self, problem: Problem) -> Problem:
        """The same problem with the source and line of its path, where it has none."""
        return _located(self.root, problem)


def load_recipe(
    source: FilePath | str | Mapping[str, Any] | Recipe, registry: Registry, overrides: Iterable[str] = ()
) -> Loaded:
    """The recipe in a file, in a text of several lines, in plain data, or written in Python with the same classes.

    Raises RecipeError with everything that is wrong, each with its file and line.
    """
    bound = bind(Recipe, registry)
    root = apply_overrides(_read(source, bound), overrides, bound)
    data = to_plain(root)
    try:
        return Loaded(bound.model_validate(data), root)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        problems = [_located(root, problem) for problem in explain(errors, bound, data)]
        refusal = RecipeError(_first(problems))
        codes = {int(found.get("ctx", {}).get("exit_code", RecipeError.exit_code)) for found in errors}
        if len(codes) == 1:  # a recipe that is wrong only in parts that are missing or broken says so
            refusal.exit_code = codes.pop()
        raise refusal from None


def _read(source: FilePath | str | Mapping[str, Any] | Recipe, bound: type[Recipe]) -> MappingNode:
    if isinstance(source, Recipe):
        source = set_fields(source)
    if isinstance(source, Mapping):
        root = from_plain(source, Place())
        assert isinstance(root, MappingNode)
        return extended(root, FilePath("recipe"), bound)
    if isinstance(source, str) and "\n" in source:
        return extended(read_yaml(source.encode("utf-8", "surrogateescape"), "recipe"), FilePath("recipe"), bound)
    return read_file(FilePath(source), bound)


def _located(root: MappingNode, problem: Problem) -> Problem:
    if problem.source is not None or problem.line is not None:
        return problem
    place = locate(root, problem.path)
    return replace(problem, source=place.source, line=place.line)


def _first(problems: Sequence[Problem]) -> list[Problem]:
    """In the order of the file, and no more than a person can read."""
    sources = list(dict.fromkeys(problem.source for problem in problems))
    ordered = _causes_first(sorted(problems, key=lambda problem: (sources.index(problem.source), problem.line or 0)))
    if len(ordered) > ENOUGH:
        rest = ordered[ENOUGH]
        more = Problem(f"and {len(ordered) - ENOUGH} more mistakes from here on", source=rest.source, line=rest.line)
        return [*ordered[:ENOUGH], more]
    return ordered


def _causes_first(problems: Sequence[Problem]) -> list[Problem]:
    """The same, with what is missing in a mapping below unknown keys there: one of them may be misspelt."""
    unknown = {problem.path[:-1]: place for place, problem in enumerate(problems) if isinstance(problem, UnknownKey)}

    def order(placed: tuple[int, Problem]) -> tuple[int, bool]:
        place, problem = placed
        is_missing = isinstance(problem, MissingKey)
        return max(place, unknown.get(problem.path[:-1], place)) if is_missing else place, is_missing

    return [problem for _, problem in sorted(enumerate(problems), key=order)]
