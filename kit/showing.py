"""Recipes, models and explanations as HTML, which is how a notebook shows them; everything in it is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from kit.explaining.wording import cost_rows

if TYPE_CHECKING:
    from torch import nn

    from kit.explaining.explanation import Explanation
    from kit.explaining.tree import Node

LONGEST = 200
"""Longer values are cut: a notebook is no place for a vocabulary."""
_OPEN = 2
"""How many levels of a tree are open at first."""


def recipe_html(recipe: BaseModel, name: str) -> str:
    """What a recipe says, key by key; what it leaves to its defaults is left out."""
    return f"<div><b>{escape(name)}</b>{_section(recipe)}</div>"


def model_html(model: nn.Module) -> str:
    """A model as a tree of its parts, with shapes and parameters."""
    from kit.explaining.tree import grow

    return f"<div>{_tree(grow(model, type(model).__name__))}</div>"


def explanation_html(explanation: Explanation) -> str:
    """The tree, and what it costs."""
    notes = "".join(f"<p><i>{escape(note)}</i></p>" for note in explanation.notes)
    tree = _tree(explanation.tree, explanation.name)
    return f"<div>{tree}{_table(cost_rows(explanation.cost))}{notes}</div>"


def _section(section: BaseModel) -> str:
    return _rows((name, _value(value)) for name, value in _said(section))


def _said(section: BaseModel) -> Iterator[tuple[str, Any]]:
    """What differs from the defaults; the name of a part stands first."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if name == "use" or field.is_required() or value != field.get_default(call_default_factory=True):
            yield name, value


def _value(value: Any) -> str:
    if isinstance(value, BaseModel):
        said = dict(_said(value))
        if list(said) == ["use"]:
            return _text(said["use"])
        return _section(value)
    if isinstance(value, list | tuple):
        return ", ".join(_value(each) for each in value) or "[]"
    if isinstance(value, Mapping):
        return _rows((str(key), _value(each)) for key, each in value.items())
    return _text(value)


def _text(value: Any) -> str:
    text = str(value)
    return escape(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")


def _table(rows: Mapping[str, str]) -> str:
    return _rows((name, escape(value)) for name, value in rows.items())


def _rows(rows: Iterator[tuple[str, str]]) -> str:
    """A table whose second column is HTML already."""
    style = ' style="text-align: left; vertical-align: top"'
    cells = "".join(f"<tr><th{style}>{_text(name)}</th><td{style}>{value}</td></tr>" for name, value in rows)
    return f"<table>{cells}</table>"


def _tree(node: Node, name: str | None = None, level: int = 0) -> str:
    words = [f"<b>{escape(name or node.name)}</b>"]
    if node.part:
        words.append(_text(node.part.partition(" ")[2]))
    if node.options:
        words.append(f"<small>({_text(node.options)})</small>")
    if node.shapes:
        words.append(_text(", ".join(node.shapes)))
    if node.shared:
        words.append("<i>shared</i>")
    elif node.parameters:
        each = f"{node.repeat} × {node.parameters // node.repeat:,} = " if node.repeat > 1 else ""
        words.append(f"<small>{each}{node.parameters:,} parameters</small>")
    label = " · ".join(words)
    if not node.children:
        return f'<div style="margin-left: 2em">{label}</div>'
    below = "".join(_tree(child, level=level + 1) for child in node.children)
    opened = " open" if level < _OPEN else ""
    return f'<details{opened} style="margin-left: 1em"><summary>{label}</summary>{below}</details>'
