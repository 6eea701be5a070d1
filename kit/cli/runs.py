"""`kit runs`: lists the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.console import AsJson, print_json, screen


def runs(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="Where runs are.")] = Path("runs"),
    json: AsJson = False,
) -> None:
    """List the runs: how far each is, and whether it can be resumed."""
    from kit.runs.metrics_file import list_runs

    found = list_runs(folder)
    if json:
        print_json(
            [
                {
                    "run": it.label,
                    "path": str(it.path),
                    "state": it.state,
                    "step": it.step,
                    "started": it.started.isoformat(),
                }
                for it in found
            ]
        )
        return
    if not found:
        screen().print(f"no runs in {folder}; train one: kit train RECIPE", highlight=False)
        return
    table = Table("run", "state", "step", "started", box=None, pad_edge=False)
    for it in found:
        colour = {"running": "yellow", "finished": "green"}.get(it.state, "red")
        started = it.started.strftime("%Y-%m-%d %H:%M")
        table.add_row(escape(it.label), f"[{colour}]{it.state}[/]", "-" if it.step is None else f"{it.step:,}", started)
    screen().print(table)
