"""Reference text of parts for `kit show`, `kit list` and the catalogue: summary, options, capabilities, an example."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticUndefined

from kit.errors import PartNotFound
from kit.plugin.component import Component

if TYPE_CHECKING:
    from kit.plugin.registry import Registered, Registry


@dataclass(frozen=True)
class OptionText:
    """One option of a part: its name, type, default and description."""

    name: str
    type: str
    default: str
    text: str


def summary(component: type[Component]) -> str:
    """The first line of the docstring of the part's module: what it computes, and the paper."""
    module = inspect.getmodule(component)
    return first_line(module.__doc__ if module is not None and module.__doc__ else component.__doc__)


def first_line(text: str | None) -> str:
    """The first line of a docstring."""
    return (inspect.cleandoc(text or "").splitlines() or [""])[0]


def option_texts(component: type[Component]) -> list[OptionText]:
    """All options of a part."""
    schema = component.options_type.model_json_schema()
    found = []
    for name, info in component.options_type.model_fields.items():
        if name != "use":
            default = "needed" if info.default is PydanticUndefined else repr(info.default)
            found.append(OptionText(name, _type(schema["properties"][name]), default, info.description or ""))
    return found


def capabilities(component: type[Component]) -> dict[str, Any]:
    """The capabilities that the class declares as data."""
    declared: dict[str, Any] = {}
    value = getattr(component, "capabilities", None)
    if value is not None and is_dataclass(value):
        declared |= {field.name: getattr(value, field.name) for field in fields(value)}
    for name in ("locations", "final_norm", "hides_future", "shape", "needs", "per_token", "reads_memory"):
        if name not in declared and hasattr(component, name):
            declared[name] = getattr(component, name)
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in declared.items()}


def example(part: Registered) -> str:
    """How a recipe would use it, with the options that have no default."""
    needed = [f"{name}: ..." for name, field in part.component.options_type.model_fields.items() if field.is_required()]
    return f"{part.kind}: {{use: {part.name}{''.join(', ' + item for item in needed)}}}"


def kind_or_error(registry: Registry, kind: str) -> str:
    """The kind, if there is one of that name."""
    if kind not in registry.kinds():
        raise PartNotFound(f"there is no kind of part called {kind!r}\n    the kinds are {', '.join(registry.kinds())}")
    return kind


def find_anywhere(registry: Registry, name: str) -> list[Registered]:
    """Every part of that name, of whatever kind."""
    kinds = [kind for kind in registry.kinds() if name in registry.names(kind) or "/" in name]
    found = []
    for kind in kinds:
        try:
            found.append(registry.find(kind, name))
        except PartNotFound:
            continue
    if not found:
        from difflib import get_close_matches

        names = sorted({each for kind in registry.kinds() for each in registry.names(kind)})
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "kit list shows all parts"
        raise PartNotFound(f"no part is called {name!r}\n    {hint}")
    return found


def source_file(component: type[Component]) -> str:
    """The file the part is written in."""
    return inspect.getsourcefile(component) or "unknown"


def _type(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "const" in schema:
        return str(schema["const"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    words = {"integer": "whole number", "number": "number", "boolean": "true | false", "string": "text", "null": "none"}
    return words.get(str(schema.get("type")), str(schema.get("type", "any")))
