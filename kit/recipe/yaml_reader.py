"""A strict YAML reader with source locations: the YAML 1.2 core schema, where `2e-5` is a number and `no` a string."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import NoReturn

import yaml

from kit.errors import Problem, RecipeError
from kit.recipe.nodes import (
    MAX_DEPTH,
    TOO_DEEP,
    Entry,
    ListNode,
    MappingNode,
    Node,
    NodePath,
    ScalarNode,
    SourceLocation,
)

MAX_DIGITS = 18
"""The longest accepted integer, in digits; converting longer ones takes quadratic time."""

_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL_OR_HEX = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_DECIMAL = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)\Z|\.(nan|NaN|NAN)\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None, "": None}

Plain = str | int | float | bool | None


class ScalarError(ValueError):
    """A plain scalar that looks like a number but is not a valid one."""


def resolve(text: str) -> Plain:
    """The value of an unquoted scalar."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.match(text) or _OCTAL_OR_HEX.match(text):
        if len(text.lstrip("+-0")) > MAX_DIGITS:
            raise ScalarError(f"found a whole number of {len(text)} digits, wanted one of at most {MAX_DIGITS}")
        return int(text, 0) if text[:2] in ("0o", "0x") else int(text)
    if _NOT_FINITE.match(text):
        raise ScalarError(f"found {text}, wanted a finite number")
    if _DECIMAL.match(text):
        number = float(text)
        if not math.isfinite(number):
            raise ScalarError(f"found {text[:40]}, wanted a number that is not too large (at most 1.8e308)")
        return number
    return text


def yaml_spelling(value: Plain) -> str:
    """A value as a recipe spells it, strings in quotes, cut to 60 characters."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return short(f"'{value}'" if isinstance(value, str) else str(value), 60)


def short(text: str, most: int = 40) -> str:
    """A text in one line, cut to a number of characters."""
    text = text[: most + 1].replace("\n", "\\n")
    return text if len(text) <= most else f"{text[: most - 3]}..."


def control_character(text: str) -> str | None:
    """The first forbidden control character of a string, as a code point; None if there is none."""
    found = _CONTROL.search(text)
    return f"U+{ord(found.group()):04X}" if found else None


MAX_VALUES = 10_000
"""The largest number of values in a recipe, values of aliases counted at each use."""

MAX_KEY_CHARACTERS = 200
"""The longest key."""
MAX_PROBLEMS = 50
"""The number of problems after which reading stops."""


@dataclass(slots=True)
class _OpenCollection:
    """A list or mapping that is not closed yet."""

    node: ListNode | MappingNode
    anchor: str | None
    counted: int
    """The count of values before it."""
    deepest: int
    """The deepest level inside it so far."""
    key: str | None = None
    key_place: SourceLocation | None = None
    refused: bool = False
    """Whether the current key was refused, so that its value is dropped."""


@dataclass(frozen=True, slots=True)
class _Anchor:
    """An anchored node, its number of values and its height."""

    node: Node
    size: int
    height: int


class TreeBuilder:
    """Builds a node tree from YAML events; `finish` returns it or raises all problems."""

    def __init__(self, source: str, *, lines: bool = True) -> None:
        self.source = source
        self.lines = lines
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self._open: list[_OpenCollection] = []
        self._anchors: dict[str, _Anchor] = {}
        self._documents = 0
        self._count = 0

    def take(self, event: yaml.Event) -> None:
        """Handle the next event."""
        mark = event.start_mark
        location = SourceLocation(self.source, mark.line + 1 if self.lines and mark is not None else None)
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop("found a second document (after `---`), wanted one recipe in a file", location)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._start(event, location)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._end()
        elif isinstance(event, yaml.AliasEvent):
            self._alias(str(event.anchor), location)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, location)

    def finish(self) -> Node:
        """The complete tree."""
        if self.root is None and not self.problems:
            self._stop(
                "the file is empty, wanted a recipe with at least a name and a model", SourceLocation(self.source, 1)
            )
        if self.problems or self.root is None:
            raise RecipeError(self.problems)
        return self.root

    def _start(self, event: yaml.CollectionStartEvent, location: SourceLocation) -> None:
        self._refuse_tag(event.tag, location)
        self._count_values(1, location)
        if len(self._open) >= MAX_DEPTH:
            self._stop(TOO_DEEP, location)
        if self._awaits_key():
            self._stop("found a list or mapping as a key, wanted a name", location)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        node = MappingNode(location) if isinstance(event, yaml.MappingStartEvent) else ListNode(location)
        self._open.append(_OpenCollection(node, event.anchor, self._count - 1, len(self._open) + 1))

    def _end(self) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            height = done.deepest - len(self._open)
            self._anchors[done.anchor] = _Anchor(done.node, self._count - done.counted, height)
        self._note_depth(done.deepest)
        self._place(done.node)

    def _alias(self, name: str, location: SourceLocation) -> None:
        if any(level.anchor == name for level in self._open):
            self._stop(f"found *{name} inside the value that &{name} names: it would contain itself", location)
        anchor = self._anchors.get(name)
        if anchor is None:
            self._problem(f"found *{name}, but nothing before it is marked &{name}", location)
            self._add_key_or_value(ScalarNode(None, location), location)
            return
        self._count_values(anchor.size, location)
        if len(self._open) + anchor.height > MAX_DEPTH:
            self._stop(f"{TOO_DEEP}, through *{name}", location)
        self._note_depth(len(self._open) + anchor.height)
        self._add_key_or_value(anchor.node, location)

    def _scalar(self, event: yaml.ScalarEvent, location: SourceLocation) -> None:
        self._refuse_tag(event.tag, location)
        self._count_values(1, location)
        node = ScalarNode(self._value(event, location), location)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchor(node, 1, 0)
        self._add_key_or_value(node, location)

    def _value(self, event: yaml.ScalarEvent, location: SourceLocation) -> Plain:
        unwanted = control_character(event.value)
        if unwanted is not None:
            self._problem(f"found the control character {unwanted} in a text, wanted printable text", location)
            return None
        if event.style:
            return str(event.value)
        try:
            return resolve(event.value)
        except ScalarError as error:
            self._problem(str(error), location)
            return None

    def _add_key_or_value(self, node: Node, location: SourceLocation) -> None:
        if not self._awaits_key():
            self._place(node)
        elif not isinstance(node, ScalarNode):
            self._stop("found a list or mapping as a key, wanted a name", location)
        elif not isinstance(node.value, str):
            self._refuse_key(yaml_spelling(node.value), location)
        elif len(node.value) > MAX_KEY_CHARACTERS:
            self._refuse_key(f"a text of {len(node.value)} characters", location)
        else:
            self._key(node.value, location)

    def _key(self, key: str, location: SourceLocation) -> None:
        level = self._open[-1]
        assert isinstance(level.node, MappingNode)
        level.key, level.key_place, level.refused = key, location, False
        if key == "<<":
            hint = "to build on another recipe write `extends: other.yaml`; to repeat a value write *its_anchor"
            self._problem("found the merge key <<, which recipes do not have", location, hint)
            level.refused = True
        elif key in level.node.entries:
            first = level.node.entries[key].location.line
            earlier = f" (first on line {first})" if first is not None else ""
            self._problem(f"found the key '{short(key)}' twice{earlier}", location, "keep one of the two")
            level.refused = True

    def _refuse_key(self, found: str, location: SourceLocation) -> None:
        level = self._open[-1]
        hint = None if found.startswith("a text") else "put it in quotes if it is meant as a name"
        self._problem(f"found {found} as a key, wanted a name", location, hint)
        level.key, level.key_place, level.refused = "", location, True

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

    def _note_depth(self, depth: int) -> None:
        if self._open:
            self._open[-1].deepest = max(self._open[-1].deepest, depth)

    def _count_values(self, values: int, location: SourceLocation) -> None:
        self._count += values
        if self._count > MAX_VALUES:
            self._stop(
                f"found more than {MAX_VALUES:,} values, aliases counted as often as they repeat something", location
            )

    def _refuse_tag(self, tag: str | None, location: SourceLocation) -> None:
        if tag is not None:
            self._problem(f"found the tag {short(tag)}: recipes hold plain values only", location, "leave the tag out")

    def _path(self) -> NodePath:
        return tuple(
            len(level.node.items) if isinstance(level.node, ListNode) else level.key or ""
            for level in self._open
            if isinstance(level.node, ListNode) or level.key is not None
        )

    def _problem(self, message: str, location: SourceLocation, hint: str | None = None) -> None:
        self.problems.append(Problem(message, self._path(), location.source, location.line, hint))
        if len(self.problems) >= MAX_PROBLEMS:
            raise RecipeError(self.problems)

    def _stop(self, message: str, location: SourceLocation) -> NoReturn:
        self.problems.append(Problem(message, source=location.source, line=location.line))
        raise RecipeError(self.problems)


MAX_RECIPE_BYTES = 200_000
"""The largest recipe file, in bytes."""

_NO_TABS = "indent with spaces: YAML allows no tabs there"


def read_yaml(content: bytes, source: str) -> MappingNode:
    """Parses the bytes of a recipe file; raises RecipeError with file and line."""
    if len(content) > MAX_RECIPE_BYTES:
        _refuse(source, 1, f"the file is larger than {MAX_RECIPE_BYTES // 1000} kB, which no recipe needs to be")
    return _mapping(_read(_decode(content, source), source), source)


def read_value(text: str, source: str) -> Node:
    """Parses a YAML value, such as the right side of an override."""
    if len(text) > MAX_RECIPE_BYTES:
        _refuse(source, None, f"the value is larger than {MAX_RECIPE_BYTES // 1000} kB")
    return _read(text, source, lines=False)


def _read(text: str, source: str, *, lines: bool = True) -> Node:
    builder = TreeBuilder(source, lines=lines)
    line = 1
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            line = line if event.end_mark is None else event.end_mark.line + 1
            builder.take(event)
    except yaml.reader.ReaderError as error:
        character = error.character if isinstance(error.character, int) else ord(str(error.character)[0])
        line = text.count("\n", 0, error.position) + 1
        message = f"found the control character U+{character:04X}, wanted printable text"
        _refuse(source, line if lines else None, message)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else line
        _refuse(source, line if lines else None, _explain(error), _NO_TABS if "'\\t'" in str(error.problem) else None)
    except (ValueError, OverflowError) as error:
        # PyYAML converts escapes such as "\UFFFFFFFF" without checking them
        _refuse(source, line if lines else None, f"this is not YAML: {error}")
    return builder.finish()


def _decode(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found = f"found the byte 0x{content[error.start]:02X} at offset {error.start}, which is not UTF-8"
        _refuse(source, line, found, "save the file as UTF-8")


def _mapping(node: Node, source: str) -> MappingNode:
    if isinstance(node, MappingNode):
        if not node.entries:
            _refuse(source, node.location.line, "the recipe is empty, wanted at least a name and a model")
        return node
    found = "a list" if isinstance(node, ListNode) else "a single value"
    _refuse(source, node.location.line, f"found {found}, wanted a recipe: keys with values, such as `name: first`")


def _explain(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's message, with the line where the enclosing construct starts."""
    text = f"this is not YAML: {error.problem or error.context}"
    text = text.replace("'<stream end>'", "the end").replace("<stream end>", "the end")
    text = text.replace("<block end>", "less indented text").replace("<block mapping start>", "more indented keys")
    if error.problem and error.context and error.context_mark is not None:
        text += f" ({error.context} that starts on line {error.context_mark.line + 1})"
    return text


def _refuse(source: str, line: int | None, message: str, hint: str | None = None) -> NoReturn:
    raise RecipeError([Problem(message, source=source, line=line, hint=hint)])
