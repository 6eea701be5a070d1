"""The command-line application: its commands, its common options, and how errors are printed."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from kit.cli.check import check
from kit.cli.compare import compare
from kit.cli.console import Version, errors, silence_torch_warnings
from kit.cli.evaluate import evaluate
from kit.cli.explain import diff, explain
from kit.cli.export import export
from kit.cli.parts import list_parts, schema, show
from kit.cli.plugin_commands import CommandGroup
from kit.cli.predict import predict
from kit.cli.runs import runs
from kit.cli.train import resume, train
from kit.errors import KitError
from kit.files.path_sandbox import sandboxed
from kit.kit import Kit

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Commands of plugins come last; kit list plugins shows what is installed.",
)
app.command()(check)
app.command()(explain)
app.command()(export)
app.command()(diff)
app.command("list")(list_parts)
for command in (show, schema, train, resume, predict, evaluate, compare, runs):
    app.command()(command)


@app.callback()
def options(
    context: typer.Context,
    no_plugin: Annotated[
        list[str] | None,
        typer.Option("--no-plugin", metavar="NAME", help="Leave a plugin out; may be given again.", is_eager=True),
    ] = None,
    outside: Annotated[
        bool, typer.Option("--allow-outside", help="Let recipes lead to files outside their folder and this one.")
    ] = False,
    version: Version = False,
) -> None:
    """Transformers assembled from parts, where every part is a plugin."""
    context.with_resource(sandboxed(outside))
    context.obj = context.obj or Kit(disable=no_plugin or ())


def main() -> NoReturn:
    """Run `kit`; a `KitError` is printed without a traceback (KIT_DEBUG=1 shows it)."""
    silence_torch_warnings()
    try:
        app(prog_name="kit")
    except KitError as error:
        if os.environ.get("KIT_DEBUG"):
            raise
        errors.print(str(error), style="red", highlight=False, markup=False, soft_wrap=True)
        sys.exit(error.exit_code)
    sys.exit(0)
