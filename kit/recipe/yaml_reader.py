"""Reads the YAML of a recipe into a tree that knows its lines, and refuses what is ambiguous, hostile or too large.

It walks PyYAML's event stream with a stack of its own, so that neither deep nesting nor aliases can exhaust anything.
"""

from __future__ import annotations

from typing import NoReturn

import yaml

from kit.errors import Problem, RecipeError
from kit.recipe.nodes import ListNode, MappingNode, Node
from kit.recipe.tree_builder import TreeBuilder

LARGEST = 200_000
"""The largest file that is read, in bytes."""

_NO_TABS = "indent with spaces: YAML allows no tabs there"


def read_yaml(content: bytes, source: str) -> MappingNode:
    """The recipe in a file's bytes; raises RecipeError with file and line where it is not one."""
    if len(content) > LARGEST:
        _refuse(source, 1, f"the file is larger than {LARGEST // 1000} kB, which no recipe needs to be")
    return _mapping(_read(_decode(content, source), source), source)


def read_value(text: str, source: str) -> Node:
    """The value in a piece of YAML, such as the right side of an override."""
    if len(text) > LARGEST:
        _refuse(source, None, f"the value is larger than {LARGEST // 1000} kB")
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
            _refuse(source, node.place.line, "the recipe is empty, wanted at least a name and a model")
        return node
    found = "a list" if isinstance(node, ListNode) else "a single value"
    _refuse(source, node.place.line, f"found {found}, wanted a recipe: keys with values, such as `name: first`")


def _explain(error: yaml.MarkedYAMLError) -> str:
    """PyYAML's own words, with where the unfinished thing began."""
    text = f"this is not YAML: {error.problem or error.context}"
    text = text.replace("'<stream end>'", "the end").replace("<stream end>", "the end")
    text = text.replace("<block end>", "less indented text").replace("<block mapping start>", "more indented keys")
    if error.problem and error.context and error.context_mark is not None:
        text += f" ({error.context} that starts on line {error.context_mark.line + 1})"
    return text


def _refuse(source: str, line: int | None, message: str, hint: str | None = None) -> NoReturn:
    raise RecipeError([Problem(message, source=source, line=line, hint=hint)])
