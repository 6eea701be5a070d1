"""`kit --version`: what a report of a mistake begins with."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Annotated

import typer

from kit.plugins import OWN


def version() -> str:
    """The kit, torch and Python, in one line; torch is asked without being imported."""
    return f"{OWN} {_of(OWN)}, torch {_of('torch')}, Python {platform.python_version()}"


def _of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "(not installed)"


def _print_and_end(asked: bool) -> None:
    if asked:
        print(version())
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_and_end, is_eager=True, help="Print the versions of the kit, torch and Python."
    ),
]
