"""The catalogue: a page for each kind of part, with every part of it that is installed."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from generating.markdown import code, default_text, prose, table, type_words

if TYPE_CHECKING:
    from kit import Kit

OWN = "kitformer"
"""The distribution whose parts need not say where they come from."""


def pages(kit: Kit) -> dict[str, str]:
    """A page a kind, and one that lists the kinds."""
    kinds = {kind: kit.registry.components(kind) for kind in kit.registry.kinds()}
    found = {kind: parts for kind, parts in kinds.items() if parts}
    made = {f"reference/catalogue/{kind}.md": _page(kind, parts) for kind, parts in found.items()}
    rows = [
        (f"[{kind}]({kind}.md)", ", ".join(f"[{it.name}]({kind}.md#{_anchor(it.name)})" for it in parts))
        for kind, parts in found.items()
    ]
    total = sum(map(len, found.values()))
    intro = f"# Catalogue\n\n{total} parts of {len(found)} kinds. `kit list` and `kit show PART` print the same.\n\n"
    return {"reference/catalogue/index.md": intro + table(("kind", "parts"), rows), **made}


def _page(kind: str, parts: list[Any]) -> str:
    contract = _contract(parts[0].component)
    module = sys.modules[contract.__module__]
    rows = [(f"[{it.name}](#{_anchor(it.name)})", prose(_about(it.component))) for it in parts]
    about = re.sub(r"^The contract of [\w\s-]+: (\w)", lambda found: found[1].upper(), module.__doc__ or "")
    sections = [f"# {kind.capitalize()}", prose(about), table(("part", "what it is"), rows)]
    return "\n\n".join([*sections, *("\n\n".join(_part(it)) for it in parts)]) + "\n"


def _part(part: Any) -> Iterator[str]:
    from kit.explain.part_reference import capabilities, example

    component = part.component
    yield f"## {part.name} {{ #{_anchor(part.name)} }}"
    if part.distribution != OWN:
        yield f"From {prose(part.origin)}."
    text = inspect.cleandoc(component.__doc__ or "")
    yield prose(_module_text(component))
    if text:
        yield prose(text)
    yield f"```yaml\n{example(part)}\n```"
    options = _options(component)
    if options:
        yield options
    told = [f"- {name.replace('_', ' ')}: {_value(value)}" for name, value in capabilities(component).items()]
    if told:
        yield "What it can do:\n\n" + "\n".join(told)


def _options(component: Any) -> str:
    fields = component.options_type.model_fields
    properties = component.options_type.model_json_schema()["properties"]
    rows = [
        (
            code(name),
            _kind_of_slot(field) or type_words(properties[name]).replace(" or nothing", ""),
            "needed" if field.is_required() else default_text(field.get_default(call_default_factory=True)),
            prose(field.description),
        )
        for name, field in fields.items()
        if name != "use"
    ]
    return table(("option", "type", "default", "what it does"), rows)


def _kind_of_slot(field: Any) -> str:
    from generating.keys import slot_kinds

    return " or ".join(f"[{kind}]({kind}.md)" for kind in slot_kinds(field))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return prose(str(value))


def _about(component: Any) -> str:
    """The first paragraph of its module: what it is, and the paper."""
    return _module_text(component).partition("\n\n")[0] or inspect.cleandoc(component.__doc__ or "")


def _module_text(component: Any) -> str:
    module = inspect.getmodule(component)
    return inspect.cleandoc(module.__doc__ or "") if module is not None else ""


def _contract(component: Any) -> Any:
    """The class that declares the kind."""
    return next(each for each in reversed(component.__mro__) if "kind" in vars(each))


def _anchor(name: str) -> str:
    return name.lower()
