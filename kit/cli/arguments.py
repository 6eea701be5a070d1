"""Arguments that several commands share."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

RecipeFile: TypeAlias = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe in YAML.")]
Overrides: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="Changes to it, such as model.width=512.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print data for a program.")]
