"""`kit list`, `kit show` and `kit schema`: lists components, describes one, prints the JSON Schema of recipes."""

from __future__ import annotations

import inspect
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, screen
from kit.errors import KitError
from kit.files.atomic import write_text


def list_parts(
    context: typer.Context,
    kind: Annotated[
        str | None, typer.Argument(metavar="[KIND]", help="One kind of part, such as attention; or: plugins.")
    ] = None,
    json: AsJson = False,
) -> None:
    """List the installed parts, or those of one kind, or the plugins."""
    if kind == "plugins":
        _list_plugins(context, json)
        return
    from kit.explain.part_reference import kind_or_error, summary

    registry = context.obj.registry
    kinds = registry.kinds() if kind is None else [kind_or_error(registry, kind)]
    found = [(part, summary(part.component)) for each in kinds for part in registry.components(each)]
    if json:
        print_json(
            [
                {
                    "kind": part.kind,
                    "name": part.name,
                    "distribution": part.distribution,
                    "version": part.version,
                    "summary": text,
                }
                for part, text in found
            ]
        )
        return
    table = Table("kind", "name", "what it is", "from", box=None, pad_edge=False)
    for part, text in found:
        table.add_row(part.kind, f"[bold]{escape(part.name)}[/]", escape(text), f"[dim]{escape(part.origin)}[/]")
    screen().print(table)


def _list_plugins(context: typer.Context, json: bool) -> None:
    found = context.obj.plugins
    if json:
        print_json(
            [
                {
                    "name": plugin.name,
                    "distribution": plugin.distribution,
                    "version": plugin.version,
                    "status": plugin.status,
                    "error": plugin.error,
                    "parts": [f"{part.kind} {part.name}" for part in plugin.parts],
                }
                for plugin in found
            ]
        )
        return
    table = Table("plugin", "from", "state", "parts", box=None, pad_edge=False)
    for plugin in found:
        colour = {"loaded": "green", "failed": "red"}.get(plugin.status, "yellow")
        state = f"[{colour}]{plugin.status}[/]" + (f": {escape(plugin.error)}" if plugin.error else "")
        table.add_row(plugin.name, f"{plugin.distribution} {plugin.version}", state, str(len(plugin.parts)))
    screen().print(table)


def show(
    context: typer.Context,
    part: Annotated[str, typer.Argument(metavar="[KIND] PART", help="A part, such as softmax or mask window.")],
    name: Annotated[str | None, typer.Argument(hidden=True)] = None,
    json: AsJson = False,
) -> None:
    """Show a part: what it does, its options, its capabilities, an example, where it comes from."""
    from kit.explain.part_reference import find_anywhere, kind_or_error

    registry = context.obj.registry
    found = find_anywhere(registry, part) if name is None else [registry.find(kind_or_error(registry, part), name)]
    described = [_describe(each) for each in found]
    if json:
        print_json(described)
        return
    for each in described:
        _print_part(each)


def _describe(part: Any) -> dict[str, Any]:
    from kit.explain.part_reference import capabilities, example, option_texts, source_file, summary

    component = part.component
    return {
        "kind": part.kind,
        "name": part.name,
        "summary": summary(component),
        "text": inspect.cleandoc(component.__doc__ or ""),
        "options": [vars(option) for option in option_texts(component)],
        "capabilities": capabilities(component),
        "example": example(part),
        "from": part.origin,
        "file": source_file(component),
    }


def _print_part(described: dict[str, Any]) -> None:
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
    for name, value in described["capabilities"].items():
        text = ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
        out.print(f"  {name.replace('_', ' ')}: {escape(text)}", highlight=False)
    out.print(f"[green]{escape(described['example'])}[/]")
    out.print(f"[dim]{escape(described['file'])}[/]\n", soft_wrap=True)


def schema(
    context: typer.Context,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write it to a file, such as recipe.schema.json.")
    ] = None,
) -> None:
    """Print the JSON Schema of recipes, third-party parts included, so that an editor completes and checks them."""
    from kit.recipe.json_schema import json_schema

    text = dumps(json_schema(context.obj.registry), indent=2, ensure_ascii=False)
    if write is None:
        print(text)
        return
    if write.exists() and not write.is_file():  # a device or a pipe would be replaced
        raise KitError(f"{write} is not a file; name a new one, or leave --write out to print the schema")
    write_text(write, text + "\n")
    screen().print(f"wrote {write}; begin a recipe with: # yaml-language-server: $schema={write}")
