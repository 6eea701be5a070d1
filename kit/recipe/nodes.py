"""The tree that a recipe is read into: plain values, each with the file and line it came from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kit.errors import Problem, RecipeError

Path: TypeAlias = tuple[str | int, ...]

DEEPEST = 64
"""How many lists and mappings may lie inside each other."""
TOO_DEEP = f"found lists and mappings nested deeper than {DEEPEST} levels"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something was written."""

    source: str | None = None
    """The file, or the override as it was typed; None for a recipe written in Python."""
    line: int | None = None
    """Counted from 1; None where the source has no lines."""


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """A number, a text, true, false, null, or (in a recipe written in Python) an options object."""

    value: Any
    place: Place


@dataclass(frozen=True, slots=True)
class ListNode:
    """A list."""

    place: Place
    items: list[Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value; `place` is the key's."""

    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    """A mapping from names to values, in the order they were written."""

    place: Place
    entries: dict[str, Entry] = field(default_factory=dict)

    def get(self, key: str) -> Node | None:
        """The value of a key, or None where there is no such key."""
        entry = self.entries.get(key)
        return None if entry is None else entry.node

    def with_entry(self, key: str, entry: Entry | None) -> MappingNode:
        """The same mapping with one entry set, or left out where `entry` is None."""
        entries = dict(self.entries)
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
        return MappingNode(self.place, entries)


Node: TypeAlias = ScalarNode | ListNode | MappingNode


def to_plain(node: Node) -> Any:
    """The values alone, as fresh dicts and lists."""
    if isinstance(node, MappingNode):
        return {key: to_plain(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [to_plain(item) for item in node.items]
    return node.value


def from_plain(value: Any, place: Place, depth: int = 0) -> Node:
    """A tree of plain values that all came from one place; anything that is no mapping, list or tuple is a leaf."""
    if depth > DEEPEST:
        raise RecipeError([Problem(TOO_DEEP, source=place.source, line=place.line)])
    if isinstance(value, Mapping):
        odd = next((key for key in value if not isinstance(key, str)), None)
        if odd is not None:
            raise RecipeError([Problem(f"found {odd!r} as a key, wanted a name", source=place.source, line=place.line)])
        entries = {key: Entry(place, from_plain(item, place, depth + 1)) for key, item in value.items()}
        return MappingNode(place, entries)
    if isinstance(value, list | tuple):
        return ListNode(place, [from_plain(item, place, depth + 1) for item in value])
    return ScalarNode(value, place)


def follow(root: Node, path: Path) -> Iterator[tuple[Place, Node]]:
    """Each node on the way along a path, with the place of its key, as far as the tree goes."""
    node = root
    yield root.place, root
    for step in path:
        if isinstance(node, MappingNode) and isinstance(step, str) and step in node.entries:
            entry = node.entries[step]
            place, node = entry.place, entry.node
        elif isinstance(node, ListNode) and isinstance(step, int) and 0 <= step < len(node.items):
            node = node.items[step]
            place = node.place
        else:
            return
        yield place, node


def locate(root: Node, path: Path) -> Place:
    """Where the value at a path was written; for a path that is not there, where its nearest ancestor was."""
    place, node = list(follow(root, path))[-1]
    return node.place if isinstance(node, ScalarNode) else place
