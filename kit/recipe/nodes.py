"""The node tree of a recipe: scalars, lists and mappings, each with its source location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kit.errors import Problem, RecipeError

NodePath: TypeAlias = tuple[str | int, ...]

MAX_DEPTH = 64
"""The deepest nesting of lists and mappings."""
TOO_DEEP = f"found lists and mappings nested deeper than {MAX_DEPTH} levels"


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """The source and line of a node."""

    source: str | None = None
    """The file, or the text of an override; None for a recipe written in Python."""
    line: int | None = None
    """Counted from 1; None if the source has no lines."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A number, string, boolean or null, or an options object in a recipe written in Python."""

    value: Any
    location: SourceLocation


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    location: SourceLocation
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """The value of a key, and the location of the key."""

    location: SourceLocation
    node: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping from names to values, in source order."""

    location: SourceLocation
    entries: dict[str, Entry] = field(default_factory=dict)

    def get(self, key: str) -> Node | None:
        """The value of a key; None if there is no such key."""
        entry = self.entries.get(key)
        return None if entry is None else entry.node

    def with_entry(self, key: str, entry: Entry | None) -> MappingNode:
        """A copy with one entry set, or removed if `entry` is None."""
        entries = dict(self.entries)
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
        return MappingNode(self.location, entries)


Node: TypeAlias = ScalarNode | ListNode | MappingNode


def to_plain(node: Node) -> Any:
    """The values without locations, as new dicts and lists."""
    if isinstance(node, MappingNode):
        return {key: to_plain(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [to_plain(item) for item in node.items]
    return node.value


def from_plain(value: Any, location: SourceLocation, depth: int = 0) -> Node:
    """A tree of plain values with one location; anything but a mapping, list or tuple is a scalar."""
    if depth > MAX_DEPTH:
        raise RecipeError([Problem(TOO_DEEP, source=location.source, line=location.line)])
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise RecipeError(
                [Problem(f"found {odd!r} as a key, wanted a name", source=location.source, line=location.line)]
            )
        entries = {key: Entry(location, from_plain(item, location, depth + 1)) for key, item in value.items()}
        return MappingNode(location, entries)
    if isinstance(value, list | tuple):
        return ListNode(location, [from_plain(item, location, depth + 1) for item in value])
    return ScalarNode(value, location)


def follow(root: Node, path: NodePath) -> Iterator[tuple[SourceLocation, Node]]:
    """Yields each node along a path with the location of its key, as far as the tree goes."""
    node = root
    yield root.location, root
    for step in path:
        if isinstance(node, MappingNode) and isinstance(step, str) and step in node.entries:
            entry = node.entries[step]
            location, node = entry.location, entry.node
        elif isinstance(node, ListNode) and isinstance(step, int) and 0 <= step < len(node.items):
            node = node.items[step]
            location = node.location
        else:
            return
        yield location, node


def locate(root: Node, path: NodePath) -> SourceLocation:
    """Where the value at a path was written; for a path that is not there, where its nearest ancestor was."""
    location, node = list(follow(root, path))[-1]
    return node.location if isinstance(node, ScalarNode) else location
