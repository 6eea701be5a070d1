"""The application: its commands, those that plugins add, and how a mistake is told."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from kit import confining
from kit.cli import (
    check,
    compare,
    diff,
    embeddings,
    evaluate,
    explain,
    export,
    inspect,
    launch,
    listing,
    matrix,
    plugin,
    predict,
    probe,
    prune,
    runs,
    schema,
    serve,
    show,
    study,
    train,
)
from kit.cli.console import errors
from kit.cli.one_of_many import hush_torch
from kit.cli.version import Version
from kit.errors import KitError
from kit.kit import Kit


class _Commands(TyperGroup):
    """The commands of the kit; those of plugins are looked for only when a name is not one of them."""

    # Typer brings a click of its own from some version on, so its types are not named here.
    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        known = super().get_command(ctx, cmd_name)
        return known if known is not None else _plugin_commands(ctx.obj).get(cmd_name)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Plugins may add commands of their own; kit list plugins shows what is installed.",
)
for module in (
    check,
    explain,
    export,
    diff,
    listing,
    show,
    schema,
    train,
    predict,
    evaluate,
    compare,
    probe,
    prune,
    embeddings,
    inspect,
    launch,
    runs,
    matrix,
    plugin,
    serve,
    study,
):
    module.add_to(app)


@app.callback()
def options(
    context: typer.Context,
    no_plugin: Annotated[
        list[str] | None, typer.Option("--no-plugin", metavar="NAME", help="Leave a plugin out; may be given again.")
    ] = None,
    outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let recipes lead to files outside their folder and this one.")
    ] = False,
    version: Version = False,
) -> None:
    """Transformers assembled from parts, where every part is a plugin."""
    context.with_resource(confining.confined(outside))
    context.obj = Kit(disable=no_plugin or ())


def _plugin_commands(kit: Kit | None) -> dict[str, Any]:
    """The commands that plugins add; one whose hook fails is named, and the others stay."""
    extra = typer.Typer(pretty_exceptions_enable=False)
    extra.callback()(lambda: None)  # keeps it a group, even with one command
    try:
        (kit or Kit()).hooks.kit_commands(app=extra)
    except KitError as error:
        errors.print(f"[yellow]warning:[/] {error}", highlight=False)
    commands: dict[str, Any] = getattr(typer.main.get_command(extra), "commands", {})
    return commands


def main() -> NoReturn:
    """Run `kit`; a person's mistake is printed without a traceback (KIT_DEBUG=1 shows it)."""
    hush_torch()
    try:
        app(prog_name="kit")
    except KitError as error:
        if os.environ.get("KIT_DEBUG"):
            raise
        errors.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    sys.exit(0)
