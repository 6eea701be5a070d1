"""Loads a recipe: resolves `extends`, merges layers, applies overrides, and validates against the bound schema.

In a merge mappings merge and everything else replaces; options of two components are never mixed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from pathlib import Path as FilePath
from typing import Any, NoReturn

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError

from kit.errors import Problem, RecipeError
from kit.files.path_sandbox import HINT, is_path_allowed
from kit.plugin.registry import Registry
from kit.recipe.nodes import (
    Entry,
    ListNode,
    MappingNode,
    Node,
    NodePath,
    ScalarNode,
    SourceLocation,
    from_plain,
    locate,
    to_plain,
)
from kit.recipe.schema_path import FieldType, descend, model_at, slot_or_model
from kit.recipe.sections import Recipe
from kit.recipe.slot_schema import BoundSlot, bind, explicit_fields
from kit.recipe.validation_errors import MissingKey, UnknownKey, explain_errors
from kit.recipe.yaml_reader import MAX_PROBLEMS, MAX_RECIPE_BYTES, read_value, read_yaml, yaml_spelling


def merge(base: Node | None, over: Node, field_type: FieldType) -> Node:
    """Merges `over` into `base`, both of the given field type."""
    if base is None or not isinstance(over, MappingNode):
        return over
    lower = as_mapping(base)
    if isinstance(lower, ScalarNode) and isinstance(lower.value, str) and _is_slot(field_type):
        lower = expand_shorthand(lower)
    if not isinstance(lower, MappingNode) or not _same_part(lower, over, field_type):
        return over
    entries = dict(lower.entries)
    both = MappingNode(over.location, {**lower.entries, **over.entries})
    for key, entry in over.entries.items():
        below = entries.get(key)
        if below is not None and isinstance(entry.node, ScalarNode) and entry.node.value is None:
            del entries[key]
        else:
            merged = merge(below.node if below else None, entry.node, child_type(field_type, both, key))
            entries[key] = Entry(entry.location, merged)
    return MappingNode(over.location, entries)


def as_mapping(node: Node) -> Node:
    """A scalar node that holds an options or section object, as a mapping; other nodes unchanged."""
    if isinstance(node, ScalarNode) and isinstance(node.value, BaseModel):
        return from_plain(explicit_fields(node.value), node.location)
    return node


def expand_shorthand(node: ScalarNode) -> MappingNode:
    """Expands `norm: rms` to `norm: {use: rms}`."""
    return MappingNode(node.location, {"use": Entry(node.location, node)})


def child_type(field_type: FieldType, node: MappingNode, key: str) -> FieldType:
    """The field type of a key in a mapping."""
    use = node.get("use")
    keys = dict.fromkeys(node.entries) | ({"use": to_plain(use)} if use is not None else {})
    return descend(model_at(field_type, keys) or field_type, key)


def _is_slot(field_type: FieldType) -> bool:
    return field_type is None or isinstance(slot_or_model(field_type), BoundSlot)


def _same_part(base: MappingNode, over: MappingNode, field_type: FieldType) -> bool:
    """Whether two mappings of one field type select the same component; always true outside slots."""
    if field_type is not None and isinstance(slot_or_model(field_type, base.entries), BoundSlot) != isinstance(
        slot_or_model(field_type, over.entries), BoundSlot
    ):
        return False  # one is a component, the other a section that may replace it
    if "use" not in over.entries or not _is_slot(field_type):
        return True
    names = [to_plain(entry.node) if (entry := node.entries.get("use")) else None for node in (base, over)]
    slot = slot_or_model(field_type) if field_type is not None else None
    if not isinstance(slot, BoundSlot):
        return bool(names[0] == names[1])
    try:
        return slot.part_of({"use": names[0]}).scoped == slot.part_of({"use": names[1]}).scoped
    except PydanticCustomError:
        return bool(names[0] == names[1])


MAX_EXTENDS = 8
"""The longest chain of recipes that extend each other."""


def read_file(path: Path, field_type: FieldType) -> MappingNode:
    """Reads the recipe in a file, merged over the recipes that it extends."""
    return resolve_extends(read_yaml(_bytes(path, SourceLocation()), str(path)), path, field_type)


def resolve_extends(root: MappingNode, path: Path, field_type: FieldType) -> MappingNode:
    """Merges a recipe that was read from `path` over the recipes that it extends."""
    layers = [_without_extends(root)]
    seen = [_resolved(path)]
    folder = path.parent
    while (entry := root.entries.get("extends")) is not None:
        node = entry.node
        if not isinstance(node, ScalarNode) or not isinstance(node.value, str):
            raise _refusal("wanted the path of another recipe, such as `extends: base.yaml`", entry.location)
        path = path.parent / node.value
        if not _may_read(path, folder):
            raise _refusal(
                f"found {node.value}, which lies outside {folder.resolve()}, the recipe's folder, and the current one",
                node.location,
                HINT,
            )
        if _resolved(path) in seen:
            raise _refusal(f"found {node.value}, which extends this recipe in turn: that is a circle", node.location)
        if len(layers) >= MAX_EXTENDS:
            raise _refusal(f"found more than {MAX_EXTENDS} recipes that extend each other in a row", node.location)
        seen.append(_resolved(path))
        root = read_yaml(_bytes(path, node.location), str(path))
        layers.append(_without_extends(root))
    result = layers[-1]
    for layer in reversed(layers[:-1]):
        merged = merge(result, layer, field_type)
        assert isinstance(merged, MappingNode)
        result = merged
    return result


def _bytes(path: Path, wanted_by: SourceLocation) -> bytes:
    """The content of a file, up to one byte more than MAX_RECIPE_BYTES."""
    try:
        if not path.is_file():
            found = "is a folder" if path.is_dir() else "is not there"
            raise _unreadable(path, f"the recipe {path} {found}", wanted_by)
        with path.open("rb") as file:
            return file.read(MAX_RECIPE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _unreadable(path, f"the recipe {path} cannot be read: {reason}", wanted_by) from None


def _unreadable(path: Path, message: str, wanted_by: SourceLocation) -> RecipeError:
    location = wanted_by if wanted_by.source is not None else SourceLocation(str(path))
    steps = ("extends",) if wanted_by.source is not None else ()
    return RecipeError([Problem(message, steps, location.source, location.line, _similar_file(path))])


def _similar_file(path: Path) -> str | None:
    """A hint: the file in the same folder with the most similar name."""
    try:
        names = sorted(file.name for file in path.parent.iterdir() if file.suffix in (".yaml", ".yml"))
    except (OSError, ValueError):
        return None
    near = difflib.get_close_matches(path.name, names, 1)
    return f"did you mean {path.parent / near[0]}?" if near else None


def _without_extends(root: MappingNode) -> MappingNode:
    return root.with_entry("extends", None)


def _resolved(path: Path) -> str:
    try:
        return str(path.resolve())
    except (OSError, RuntimeError, ValueError):
        return str(path)


def _may_read(path: Path, folder: Path) -> bool:
    try:
        return is_path_allowed(path, [folder])
    except (OSError, RuntimeError, ValueError):
        return True  # an invalid path; reading it raises the error


def _refusal(message: str, location: SourceLocation, hint: str | None = None) -> RecipeError:
    return RecipeError([Problem(message, ("extends",), location.source, location.line, hint)])


_FORM = "wanted a path, = and a value, such as model.width=512 or model.encoder.layers[0].norm=rms"
_STEP = re.compile(r"\.?(?P<name>[^.\[\]=\s]+)|\[(?P<index>[0-9]{1,6})\]")
_MAX_STEPS = 32


def apply_overrides(root: MappingNode, overrides: Iterable[str], field_type: FieldType) -> MappingNode:
    """Applies overrides to a recipe in order; raises RecipeError with all overrides that are invalid."""
    problems: list[Problem] = []
    for text in overrides:
        source = f"override '{text if len(text) <= 80 else text[:77] + '...'}'"
        try:
            path, value = _parse(text, source)
            changed = _set(root, path, value, field_type, _Change(source, path))
            assert isinstance(changed, MappingNode)
            root = changed
        except RecipeError as error:
            problems += error.problems
    if problems:
        raise RecipeError(problems)
    return root


class _Change:
    """The current override, for messages."""

    def __init__(self, source: str, path: NodePath) -> None:
        self.location = SourceLocation(source)
        self.path = path

    def refuse(self, message: str, rest: NodePath, hint: str | None = None) -> NoReturn:
        """Raises RecipeError: the path cannot be followed beyond the steps before `rest`."""
        reached = self.path[: len(self.path) - len(rest)]
        raise RecipeError([Problem(message, reached, self.location.source, hint=hint)])


def _parse(text: str, source: str) -> tuple[NodePath, Node]:
    left, equals, right = text.partition("=")
    steps: list[str | int] = []
    end = 0
    left = left.strip()
    for found in _STEP.finditer(left):
        if found.start() != end or (end == 0) == found.group().startswith((".", "[")):
            break
        end = found.end()
        steps.append(found["name"] if found["name"] is not None else int(found["index"]))
    if not equals or not steps or end != len(left) or len(steps) > _MAX_STEPS:
        raise RecipeError([Problem(f"this is not a change to a recipe; {_FORM}", source=source)])
    value = read_value(right, source) if right.strip() else ScalarNode(None, SourceLocation(source))
    return tuple(steps), value


def _set(
    node: Node | None, path: Sequence[str | int], value: Node, field_type: FieldType, change: _Change
) -> Node | None:
    """The node with the value merged at the path; None if null removes the whole node."""
    if not path:
        removed = isinstance(value, ScalarNode) and value.value is None and node is not None
        return None if removed else merge(node, value, field_type)
    step, rest = path[0], tuple(path[1:])
    node = MappingNode(change.location) if node is None and isinstance(step, str) else node
    node = as_mapping(node) if node is not None else None
    if isinstance(step, int):
        return _set_item(node, step, rest, value, field_type, change)
    if isinstance(node, ScalarNode) and isinstance(node.value, str):
        node = expand_shorthand(node)
    if not isinstance(node, MappingNode):
        found = "a list" if isinstance(node, ListNode) else yaml_spelling(node.value if node else None)
        change.refuse(f"found {found}, which has nothing called '{step}'", (step, *rest), _index_hint(node, step))
    if not rest:
        return merge(node, MappingNode(node.location, {step: Entry(change.location, value)}), field_type)
    child = _set(node.get(step), rest, value, child_type(field_type, node, step), change)
    return node.with_entry(step, Entry(_key_place(node, step, child, change), child) if child is not None else None)


def _set_item(
    node: Node | None, index: int, rest: NodePath, value: Node, field_type: FieldType, change: _Change
) -> ListNode:
    if not isinstance(node, ListNode):
        change.refuse(f"found no list here, so there is no [{index}]", (index, *rest))
    if index >= len(node.items):
        last = f"the last one is [{len(node.items) - 1}]" if node.items else "it is empty"
        change.refuse(f"found a list of {len(node.items)}, which has no [{index}]", (index, *rest), last)
    child = _set(node.items[index], rest, value, descend(field_type, index), change)
    items = [*node.items[:index], *([child] if child is not None else []), *node.items[index + 1 :]]
    return ListNode(node.location, items)


def _key_place(node: MappingNode, step: str, child: Node | None, change: _Change) -> SourceLocation:
    """The location of the key; the override's, if everything below the key comes from it."""
    kept = isinstance(child, MappingNode) and any(entry.location != change.location for entry in child.entries.values())
    return node.entries[step].location if step in node.entries and kept else change.location


def _index_hint(node: Node | None, step: str) -> str | None:
    return f"write [{step}] to change an item" if isinstance(node, ListNode) and step.isdigit() else None


@dataclass(frozen=True)
class Loaded:
    """A recipe that is valid against its schema, and the YAML tree with source locations."""

    recipe: Recipe
    root: MappingNode

    def locate(self, path: NodePath) -> tuple[str | None, int | None]:
        """The source and line of the value at a path, or of its nearest ancestor in the file."""
        location = locate(self.root, path)
        return location.source, location.line

    def locate_problem(self, problem: Problem) -> Problem:
        """Adds the source and line of its path to a problem that has none."""
        return _located(self.root, problem)


def load_recipe(
    source: FilePath | str | Mapping[str, Any] | Recipe, registry: Registry, overrides: Iterable[str] = ()
) -> Loaded:
    """Loads a recipe from a file, YAML text of several lines, plain data, or a `Recipe` object.

    Raises RecipeError with all problems, each with its file and line.
    """
    bound = bind(Recipe, registry)
    root = apply_overrides(_read(source, bound), overrides, bound)
    data = to_plain(root)
    try:
        return Loaded(bound.model_validate(data), root)
    except ValidationError as error:
        errors = error.errors(include_url=False)
        problems = [_located(root, problem) for problem in explain_errors(errors, bound, data)]
        refusal = RecipeError(_first(problems))
        codes = {int(found.get("ctx", {}).get("exit_code", RecipeError.exit_code)) for found in errors}
        if len(codes) == 1:  # the exit code of a missing or broken plugin, if that is the only kind of problem
            refusal.exit_code = codes.pop()
        raise refusal from None


def _read(source: FilePath | str | Mapping[str, Any] | Recipe, bound: type[Recipe]) -> MappingNode:
    if isinstance(source, Recipe):
        source = explicit_fields(source)
    if isinstance(source, Mapping):
        root = from_plain(source, SourceLocation())
        assert isinstance(root, MappingNode)
        return resolve_extends(root, FilePath("recipe"), bound)
    if isinstance(source, str) and "\n" in source:
        return resolve_extends(
            read_yaml(source.encode("utf-8", "surrogateescape"), "recipe"), FilePath("recipe"), bound
        )
    return read_file(FilePath(source), bound)


def _located(root: MappingNode, problem: Problem) -> Problem:
    if problem.source is not None or problem.line is not None:
        return problem
    location = locate(root, problem.path)
    return replace(problem, source=location.source, line=location.line)


def _first(problems: Sequence[Problem]) -> list[Problem]:
    """Sorts problems by file and line, and cuts them to MAX_PROBLEMS."""
    sources = list(dict.fromkeys(problem.source for problem in problems))
    ordered = _causes_first(sorted(problems, key=lambda problem: (sources.index(problem.source), problem.line or 0)))
    if len(ordered) > MAX_PROBLEMS:
        rest = ordered[MAX_PROBLEMS]
        more = Problem(
            f"and {len(ordered) - MAX_PROBLEMS} more mistakes from here on", source=rest.source, line=rest.line
        )
        return [*ordered[:MAX_PROBLEMS], more]
    return ordered


def _causes_first(problems: Sequence[Problem]) -> list[Problem]:
    """Moves missing keys after unknown keys of the same mapping, since one of those may be misspelt."""
    unknown = {problem.path[:-1]: index for index, problem in enumerate(problems) if isinstance(problem, UnknownKey)}

    def order(placed: tuple[int, Problem]) -> tuple[int, bool]:
        index, problem = placed
        is_missing = isinstance(problem, MissingKey)
        return max(index, unknown.get(problem.path[:-1], index)) if is_missing else index, is_missing

    return [problem for _, problem in sorted(enumerate(problems), key=order)]
