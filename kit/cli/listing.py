"""`kit list`: what is installed, by kind, and where it comes from."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, screen


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("list")(list_parts)


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
    from kit.explaining.parts import kind_or_error, summary

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
