"""Small pieces of Markdown that every generated page is made of."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; an empty string where there are no rows."""
    lines = ["| " + " | ".join(_cell(each) for each in row) + " |" for row in rows]
    if not lines:
        return ""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *lines, ""])


def code(text: str) -> str:
    """Text as code, whatever is in it; nothing for nothing."""
    fence = "``" if "`" in text else "`"
    return f"{fence}{text}{fence}" if text else ""


def prose(text: str | None) -> str:
    """A docstring as a paragraph: what Markdown or HTML would take for a sign stays what it is."""
    plain = inspect.cleandoc(text or "")
    pieces = re.split(r"(`[^`\n]+`)", plain)
    escaped = [piece if piece.startswith("`") and piece.endswith("`") else _escaped(piece) for piece in pieces]
    return "".join(escaped)


def signature(function: Any) -> str:
    """The arguments of a function or method, as its caller gives them, without quotes around types."""
    text = str(inspect.signature(function))
    text = re.sub(r"(['\"])([\w.\[\], |*]+)\1", r"\2", text)
    return re.sub(r"\((self|cls)(, )?", "(", text)


def type_words(schema: dict[str, Any]) -> str:
    """What a JSON Schema allows, in words."""
    if "enum" in schema:
        return " or ".join(code(str(each)) for each in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_words(each) for each in schema["anyOf"]))
    if "$ref" in schema:
        return code(str(schema["$ref"]).rsplit("/", 1)[-1])
    if schema.get("type") == "array":
        return f"list of {type_words(schema.get('items', {}))}"
    words = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
    words |= {"null": "nothing", "object": "mapping"}
    return words.get(str(schema.get("type")), "anything")


def default_text(value: Any) -> str:
    """A default as a recipe would write it."""
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, BaseModel):
        return code(str(getattr(value, "use", "")))
    if isinstance(value, bool):
        return code(str(value).lower())
    return code(f"{value:g}" if isinstance(value, float) else str(value))


def _escaped(text: str) -> str:
    return re.sub(r"([\\*_<>\[\]])", r"\\\1", text)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("\n", " ")
