"""A YAML file of one section, for tools with files of their own: read as strictly as a recipe, with the same errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import ValidationError

from kit.errors import KitError, Problem, RecipeError
from kit.plugin.registry import Registry
from kit.recipe.loading import apply_overrides
from kit.recipe.nodes import MappingNode, locate, to_plain
from kit.recipe.sections import Section
from kit.recipe.slot_schema import bind
from kit.recipe.validation_errors import explain_errors
from kit.recipe.yaml_reader import MAX_RECIPE_BYTES, read_yaml

S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class SectionDocument(Generic[S]):
    """A file that was read, with the source location of every key."""

    root: MappingNode
    schema: type[S]
    """The section's type with its slots bound to the installed parts."""
    section: S

    @classmethod
    def read(cls, path: Path, section_type: type[S], registry: Registry, what: str) -> SectionDocument[S]:
        """Reads and validates a file; raises `RecipeError` with every error. what: the word for it in messages."""
        root, schema = read_yaml(_content(path, what), str(path)), bind(section_type, registry)
        return cls(root, schema, _validated(root, schema))

    def overridden(self, overrides: Iterable[str]) -> S:
        """The section with `path=value` overrides laid over the file."""
        return _validated(apply_overrides(self.root, overrides, self.schema), self.schema)

    def located(self, problem: Problem) -> Problem:
        """A problem with the file and the line of its path."""
        return _located(self.root, problem)


def _content(path: Path, what: str) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MAX_RECIPE_BYTES + 1)
    except (OSError, ValueError) as error:
        names = sorted(file.name for file in path.parent.glob("*.yaml")) if path.parent.is_dir() else []
        near = difflib.get_close_matches(path.name, names, 1)
        hint = f"\n    did you mean {path.parent / near[0]}?" if near else ""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise KitError(f"the {what} {path} cannot be read: {reason}{hint}") from None


def _validated(root: MappingNode, schema: type[S]) -> S:
    data = to_plain(root)
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        problems = explain_errors(error.errors(include_url=False), schema, data)
        raise RecipeError([_located(root, problem) for problem in problems]) from None


def _located(root: MappingNode, problem: Problem) -> Problem:
    if problem.source:
        return problem
    location = locate(root, problem.path)
    return replace(problem, source=location.source, line=location.line)
