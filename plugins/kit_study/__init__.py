"""`kit study`: runs the variants of a recipe with several seeds, and compares them with intervals and tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    import typer

kit_api = 1


@hookimpl
def kit_commands(app: typer.Typer) -> None:
    """Add the command `study`."""
    from kit_study.command import study

    app.command()(study)
