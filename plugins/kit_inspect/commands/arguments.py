"""Common arguments of the commands, loading of a run for inspection, and reading of lines."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.markup import escape

from kit import KitError
from kit.cli.console import errors

if TYPE_CHECKING:
    from kit import Inspector, Kit

MAX_SHOWN = 2
"""The most differences between the lock of a run and this installation that are printed."""
RunName: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="A run: its folder, name and number, or name.")]
Device: TypeAlias = Annotated[str | None, typer.Option(help="Where the model runs: cpu, cuda; left out, the best.")]


def inspector_of(run: str, kit: Kit, device: str | None = None) -> Inspector:
    """Loads a run for inspection; prints differences from its lock as warnings."""
    from kit import DifferentRunWarning, inspect, load_run

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DifferentRunWarning)
        loaded = load_run(run, kit, device=device)
    for text in loaded.differences[:MAX_SHOWN]:
        text = f"not as when {loaded.run.label} was made: {text}"
        errors.print(f"[yellow]warning:[/] {escape(text)}", highlight=False, soft_wrap=True)
    if len(loaded.differences) > MAX_SHOWN:
        more = len(loaded.differences) - MAX_SHOWN
        errors.print(f"[yellow]warning:[/] and {more} more differences", highlight=False)
    return inspect(loaded)


def lines_of(file: Path) -> list[str]:
    """Reads the non-empty lines of a text file."""
    try:
        return [line for line in file.read_text(encoding="utf-8").splitlines() if line]
    except (OSError, UnicodeDecodeError) as error:
        raise KitError(f"{file} cannot be read: {error}") from error
