"""`kit export`: exports a trained model to another inference engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, quantity, screen
from kit.cli.run_arguments import RunName, loaded_run

if TYPE_CHECKING:
    from kit.exporting.export import Exported


def export(
    context: typer.Context,
    run: RunName,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[OPTION=VALUE]...", help="Options, such as quantization=int8.")
    ] = None,
    to: Annotated[str, typer.Option("--to", metavar="NAME", help="What to write; kit list exporter shows what.")] = ...,  # type: ignore[assignment]
    output: Annotated[Path | None, typer.Option(metavar="FOLDER", help="A new folder; left out, in the run.")] = None,
    json: AsJson = False,
) -> None:
    """Write a trained model for another engine, and compare what was written with the model."""
    from kit.exporting.export import export as export_run

    context.obj.registry.find("exporter", to)  # before anything that takes time
    done = export_run(loaded_run(run, context.obj, "cpu"), to, overrides or (), output=output)
    if json:
        print_json(
            {
                "folder": str(done.folder),
                "files": [str(file) for file in done.files],
                "compared_on": done.compared_on,
                "checks": [{"what": it.what, "difference": it.difference, "limit": it.limit} for it in done.checks],
            }
        )
    else:
        _print(done)


def _print(done: Exported) -> None:
    out = screen()
    files = Table(str(done.folder), "size", box=None, pad_edge=False)
    for file in done.files:
        files.add_row(escape(str(file)), quantity((done.folder / file).stat().st_size, "B"))
    out.print(files)
    checks = Table(f"compared on {done.compared_on}", "largest difference", box=None, pad_edge=False)
    for check in done.checks:
        checks.add_row(escape(check.what), f"{check.difference:.2g}")
    out.print(checks)
