"""`kit show`: everything about one part."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, screen


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(show)


def show(
    context: typer.Context,
    part: Annotated[str, typer.Argument(metavar="[KIND] PART", help="A part, such as softmax or mask window.")],
    name: Annotated[str | None, typer.Argument(hidden=True)] = None,
    json: AsJson = False,
) -> None:
    """Show a part: what it does, its options, its capabilities, an example, where it comes from."""
    from kit.explaining.parts import find_anywhere, kind_or_error

    registry = context.obj.registry
    found = find_anywhere(registry, part) if name is None else [registry.find(kind_or_error(registry, part), name)]
    described = [_describe(each) for each in found]
    if json:
        print_json(described)
        return
    for each in described:
        _print(each)


def _describe(part: Any) -> dict[str, Any]:
    from kit.explaining.parts import abilities, example, option_texts, source_file, summary

    component = part.component
    return {
        "kind": part.kind,
        "name": part.name,
        "summary": summary(component),
        "text": inspect.cleandoc(component.__doc__ or ""),
        "options": [vars(option) for option in option_texts(component)],
        "abilities": abilities(component),
        "example": example(part),
        "from": part.origin,
        "file": source_file(component),
    }


def _print(described: dict[str, Any]) -> None:
    out = screen()
    out.print(f"[bold]{described['kind']} {described['name']}[/]  [dim]{escape(described['from'])}[/]")
    out.print(escape(described["summary"]))
    out.print(escape(described["text"]))
    if described["options"]:
        table = Table("option", "type", "default", "what it does", box=None, pad_edge=False)
        for option in described["options"]:
            cells = (option["name"], option["type"], option["default"], option["text"])
            table.add_row(*(escape(cell) for cell in cells))
        out.print(table)
    for name, value in described["abilities"].items():
        text = ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
        out.print(f"  {name.replace('_', ' ')}: {escape(text)}", highlight=False)
    out.print(f"[green]{escape(described['example'])}[/]")
    out.print(f"[dim]{escape(described['file'])}[/]\n", soft_wrap=True)
