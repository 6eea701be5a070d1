"""`kit serve`: an HTTP server for a trained run, with a JSON interface and a web page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    import typer

kit_api = 1


@hookimpl
def kit_commands(app: typer.Typer) -> None:
    """Add the command `serve`."""
    from kit_serve.command import serve

    app.command()(serve)
