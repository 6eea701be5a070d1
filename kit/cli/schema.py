"""`kit schema`: the JSON Schema of recipes, with every installed part, for editors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from kit.cli.console import screen


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(schema)


def schema(
    context: typer.Context,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write it to a file, such as recipe.schema.json.")
    ] = None,
) -> None:
    """Print the JSON Schema of recipes, third-party parts included, so that an editor completes and checks them."""
    from kit.recipe.schema import json_schema

    text = json.dumps(json_schema(context.obj.registry), indent=2, ensure_ascii=False)
    if write is None:
        print(text)
        return
    write.write_text(text + "\n", encoding="utf-8")
    screen().print(f"wrote {write}; begin a recipe with: # yaml-language-server: $schema={write}")
