"""`kit plugin` and `kit matrix`: project templates, reports of laws and costs, and the compatibility matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    import typer

kit_api = 1


@hookimpl
def kit_commands(app: typer.Typer) -> None:
    """Add the command group `plugin`, and `matrix`."""
    from kit_author.command import plugin_commands
    from kit_author.matrix import matrix

    app.add_typer(plugin_commands, name="plugin")
    app.command()(matrix)
