"""`kit matrix`: prints the compatibility matrix of the installed parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table

from kit import KitError
from kit.cli.console import AsJson, print_json, screen

if TYPE_CHECKING:
    from kit.laws.matrix import Matrix


def matrix(
    context: typer.Context,
    axes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AXIS]...", help="Only these: attention, position, residual, mask, family."),
    ] = None,
    json: AsJson = False,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it as a page of Markdown.")] = None,
) -> None:
    """Show which parts go together, and why the others are refused."""
    from kit.laws.matrix import AXES, Matrix
    from kit.laws.matrix_text import as_data, markdown

    unknown = [axis for axis in axes or () if axis not in AXES]
    if unknown or (axes and len(set(axes)) == 1):
        found = f"{unknown[0]!r} is none" if unknown else "there is only one"
        raise KitError(f"the matrix needs two axes or more, and {found}\n    the axes are {', '.join(AXES)}")
    combinations = Matrix(context.obj.registry)
    if json:
        print_json(as_data(combinations))
    elif write is not None:
        write.write_text(markdown(combinations), encoding="utf-8")
        screen().print(f"written to {write}")
    else:
        _print(combinations, axes or AXES)


def _print(combinations: Matrix, axes: Sequence[str]) -> None:
    from kit.laws.matrix_text import LEGEND, grid, tables

    colours = {"✓": "green", "◐": "yellow", "✗": "red"}
    for table in tables(combinations, axes):
        if table.is_full:
            screen().print(f"[bold]{table.rows} × {table.columns}[/]: everything goes with everything\n")
            continue
        columns, rows = grid(table)
        shown = Table(f"{table.rows} × {table.columns}", *columns, box=None, pad_edge=False)
        for name, *signs in rows:
            shown.add_row(f"[bold]{escape(name)}[/]", *(f"[{colours[sign]}]{sign}[/]" for sign in signs))
        screen().print(shown)
        for reason in table.reasons():
            screen().print(f"  [dim]{escape(reason)}[/]", soft_wrap=True)
        screen().print()
    screen().print(LEGEND)
