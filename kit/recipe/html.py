"""HTML representation of a recipe for notebooks, and the escaped cells and tables that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from pydantic import BaseModel

MAX_CHARACTERS = 200
"""Longer values are cut, such as a vocabulary."""


def recipe_html(recipe: BaseModel, name: str) -> str:
    """The fields of a recipe that differ from their defaults, as nested tables."""
    return f"<div><b>{escape(name)}</b>{_section(recipe)}</div>"


def html_text(value: Any) -> str:
    """A value as escaped text of at most MAX_CHARACTERS characters."""
    text = str(value)
    return escape(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…")


def html_table(rows: Iterable[tuple[str, str]]) -> str:
    """A table with a row for each name and cell; the cells are HTML already."""
    style = ' style="text-align: left; vertical-align: top"'
    cells = "".join(f"<tr><th{style}>{html_text(name)}</th><td{style}>{value}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _section(section: BaseModel) -> str:
    return html_table((name, _value(value)) for name, value in _changed_fields(section))


def _changed_fields(section: BaseModel) -> Iterator[tuple[str, Any]]:
    """The fields that differ from their defaults; the name of a part is always among them."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if name == "use" or field.is_required() or value != field.get_default(call_default_factory=True):
            yield name, value


def _value(value: Any) -> str:
    if isinstance(value, BaseModel):
        fields = dict(_changed_fields(value))
        if list(fields) == ["use"]:
            return html_text(fields["use"])
        return _section(value)
    if isinstance(value, list | tuple):
        return ", ".join(_value(each) for each in value) or "[]"
    if isinstance(value, Mapping):
        return html_table((str(key), _value(each)) for key, each in value.items())
    return html_text(value)
