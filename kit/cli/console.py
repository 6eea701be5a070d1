"""Consoles of commands: results go to standard output, errors to standard error."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib import metadata
from typing import Annotated, Any, TypeAlias

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

from kit.plugin.discovery import OWN

errors = Console(stderr=True)
DEFAULT_WIDTH = 120
"""The width of output in characters where standard output is no terminal."""


class _PipeConsole(Console):
    """A console for files and pipes: a table that is wider than the output is not cut."""

    def print(self, *objects: Any, **options: Any) -> None:
        for table in objects:
            if isinstance(table, Table):
                self._set_min_widths(table)
        super().print(*objects, **{"crop": False, **options})

    def _set_min_widths(self, table: Table) -> None:
        """Sets minimum column widths, so that rich cuts no word; if words alone are too wide, nothing is wrapped."""
        unlimited = self.options.update(width=sys.maxsize)
        wraps = Measurement.get(self, unlimited, table).minimum <= self.width
        for column in table.columns:
            sizes = [Measurement.get(self, unlimited, cell) for cell in (column.header, *column.cells, column.footer)]
            needed = max(size.minimum if wraps and not column.no_wrap else size.maximum for size in sizes)
            column.min_width = max(column.min_width or 0, needed)


def screen() -> Console:
    """Returns a console on the current standard output; wide where that is no terminal."""
    return Console() if sys.stdout.isatty() else _PipeConsole(width=DEFAULT_WIDTH)


def quantity(number: float, unit: str = "") -> str:
    """Formats a number with an SI prefix and a unit; the first call imports torch."""
    from kit.explain.explanation import quantity as with_prefix

    return with_prefix(number, unit)


def print_json(data: Any) -> None:
    """Prints data as JSON."""
    print(json.dumps(data, indent=2, ensure_ascii=False))


RecipeFile: TypeAlias = Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe in YAML.")]
Overrides: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[PATH=VALUE]...", help="Changes to it, such as model.width=512.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print data for a program.")]


_RANK_VARIABLES = ("LOCAL_RANK", "SLURM_PROCID")
"""Environment variables that torchrun and `kit train`, and srun, set in every process that they start."""


def silence_torch_warnings() -> None:
    """Silences torch's C++ warnings in the processes of a distributed training, such as DDP's on unused parameters.

    torch reads the variable only when it is imported, so this has to be called before.
    """
    if any(name in os.environ for name in _RANK_VARIABLES):
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def version() -> str:
    """Returns the versions of the kit, torch and Python in one line, without importing torch."""
    return f"{OWN} {_version_of(OWN)}, torch {_version_of('torch')}, Python {platform.python_version()}"


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _print_version(asked: bool) -> None:
    if asked:
        print(version())
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the versions of the kit, torch and Python."
    ),
]
