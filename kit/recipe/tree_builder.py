"""Builds the tree of a recipe from YAML events, one at a time, and keeps count of depth, size and aliases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import yaml

from kit.errors import Problem, RecipeError
from kit.recipe.nodes import DEEPEST, TOO_DEEP, Entry, ListNode, MappingNode, Node, Path, Place, ScalarNode
from kit.recipe.scalars import Plain, ScalarError, control_character, resolve, spelled

MOST = 10_000
"""How many values a recipe may hold, those that aliases repeat counted as often as they are repeated."""

LONGEST_KEY = 200
"""How many characters a key may have."""
ENOUGH = 50
"""How many mistakes are listed before reading stops."""


@dataclass(slots=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    node: ListNode | MappingNode
    anchor: str | None
    counted: int
    """How many values had been counted before it."""
    deepest: int
    """The deepest level seen inside it."""
    key: str | None = None
    key_place: Place | None = None
    refused: bool = False
    """Whether the key that is waiting for its value was refused, so that the value is read and dropped."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """Something that aliases can repeat."""

    node: Node
    size: int
    height: int


class TreeBuilder:
    """Takes events until the stream ends; `finish` gives the tree or raises every problem that was met."""

    def __init__(self, source: str, *, lines: bool = True) -> None:
        self.source = source
        self.lines = lines
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self._open: list[_Open] = []
        self._anchors: dict[str, _Anchor] = {}
        self._documents = 0
        self._count = 0

    def take(self, event: yaml.Event) -> None:
        """Take the next event."""
        mark = event.start_mark
        place = Place(self.source, mark.line + 1 if self.lines and mark is not None else None)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop("found a second document (after `---`), wanted one recipe in a file", place)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._start(event, place)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), place)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, place)

    def finish(self) -> Node:
        """The whole tree."""
        if self.root is None and not self.problems:
            self._stop("the file is empty, wanted a recipe with at least a name and a model", Place(self.source, 1))
        if self.problems or self.root is None:
            raise RecipeError(self.problems)
        return self.root

    def _start(self, event: yaml.CollectionStartEvent, place: Place) -> None:
        self._refuse_tag(event.tag, place)
        self._spend(1, place)
        if len(self._open) >= DEEPEST:
            self._stop(TOO_DEEP, place)
        if self._awaits_key():
            self._stop("found a list or mapping as a key, wanted a name", place)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        node = MappingNode(place) if isinstance(event, yaml.MappingStartEvent) else ListNode(place)
        self._open.append(_Open(node, event.anchor, self._count - 1, len(self._open) + 1))

    def _end(self) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            height = done.deepest - len(self._open)
            self._anchors[done.anchor] = _Anchor(done.node, self._count - done.counted, height)
        self._deepened(done.deepest)
        self._place(done.node)

    def _alias(self, name: str, place: Place) -> None:
        if any(level.anchor == name for level in self._open):
            self._stop(f"found *{name} inside the value that &{name} names: it would contain itself", place)
        anchor = self._anchors.get(name)
        if anchor is None:
            self._problem(f"found *{name}, but nothing before it is marked &{name}", place)
            self._place_or_key(ScalarNode(None, place), place)
            return
        self._spend(anchor.size, place)
        if len(self._open) + anchor.height > DEEPEST:
            self._stop(f"{TOO_DEEP}, through *{name}", place)
        self._deepened(len(self._open) + anchor.height)
        self._place_or_key(anchor.node, place)

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> None:
        self._refuse_tag(event.tag, place)
        self._spend(1, place)
        node = ScalarNode(self._value(event, place), place)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(node, 1, 0)
        self._place_or_key(node, place)

    def _value(self, event: yaml.ScalarEvent, place: Place) -> Plain:
        unwanted = control_character(event.value)
        if unwanted is not None:
            self._problem(f"found the control character {unwanted} in a text, wanted printable text", place)
            return None
        if event.style:
            return str(event.value)
        try:
            return resolve(event.value)
        except ScalarError as error:
            self._problem(str(error), place)
            return None

    def _place_or_key(self, node: Node, place: Place) -> None:
        if not self._awaits_key():
            self._place(node)
        elif not isinstance(node, ScalarNode):
            self._stop("found a list or mapping as a key, wanted a name", place)
        elif not isinstance(node.value, str):
            self._refuse_key(spelled(node.value), place)
        elif len(node.value) > LONGEST_KEY:
            self._refuse_key(f"a text of {len(node.value)} characters", place)
        else:
            self._key(node.value, place)

    def _key(self, key: str, place: Place) -> None:
        level = self._open[-1]
        assert isinstance(level.node, MappingNode)
        level.key, level.key_place, level.refused = key, place, False
        if key == "<<":
            hint = "to build on another recipe write `extends: other.yaml`; to repeat a value write *its_anchor"
            self._problem("found the merge key <<, which recipes do not have", place, hint)
            level.refused = True
        elif key in level.node.entries:
            first = level.node.entries[key].place.line
            earlier = f" (first on line {first})" if first is not None else ""
            self._problem(f"found the key '{_short(key)}' twice{earlier}", place, "keep one of the two")
            level.refused = True

    def _refuse_key(self, found: str, place: Place) -> None:
        level = self._open[-1]
        hint = None if found.startswith("a text") else "put it in quotes if it is meant as a name"
        self._problem(f"found {found} as a key, wanted a name", place, hint)
        level.key, level.key_place, level.refused = "", place, True

    def _place(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        level = self._open[-1]
        if isinstance(level.node, ListNode):
            level.node.items.append(node)
            return
        assert level.key is not None and level.key_place is not None
        if not level.refused:
            level.node.entries[level.key] = Entry(level.key_place, node)
        level.key, level.refused = None, False

    def _awaits_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].node, MappingNode) and self._open[-1].key is None

    def _deepened(self, depth: int) -> None:
        if self._open:
            self._open[-1].deepest = max(self._open[-1].deepest, depth)

    def _spend(self, values: int, place: Place) -> None:
        self._count += values
        if self._count > MOST:
            self._stop(f"found more than {MOST:,} values, aliases counted as often as they repeat something", place)

    def _refuse_tag(self, tag: str | None, place: Place) -> None:
        if tag is not None:
            self._problem(f"found the tag {_short(tag)}: recipes hold plain values only", place, "leave the tag out")

    def _path(self) -> Path:
        return tuple(
            len(level.node.items) if isinstance(level.node, ListNode) else level.key or ""
            for level in self._open
            if isinstance(level.node, ListNode) or level.key is not None
        )

    def _problem(self, message: str, place: Place, hint: str | None = None) -> None:
        self.problems.append(Problem(message, self._path(), place.source, place.line, hint))
        if len(self.problems) >= ENOUGH:
            raise RecipeError(self.problems)

    def _stop(self, message: str, place: Place) -> NoReturn:
        self.problems.append(Problem(message, source=place.source, line=place.line))
        raise RecipeError(self.problems)


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
