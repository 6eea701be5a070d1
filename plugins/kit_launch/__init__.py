"""`kit launch`: batch scripts for clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    import typer

kit_api = 1


@hookimpl
def kit_commands(app: typer.Typer) -> None:
    """Add the command `launch`."""
    from kit_launch.command import launch

    app.command()(launch)
