"""Opening a run for a command; what differs from when it was made is told, without a traceback's look."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer
from rich.markup import escape

from kit.cli.console import errors

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.opening import OpenedRun
    from kit.predicting.predictor import Compiling, Predictor

Opened = TypeVar("Opened")
SHOWN = 2
"""How many differences are told; the first is the likeliest to matter."""
RunName: TypeAlias = Annotated[str, typer.Argument(metavar="RUN", help="A run: pronounce, pronounce/3 or its folder.")]
SearchWords: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--search", metavar="WORDS", help="How to write: 'beam size=5', or size=5 to change the recipe's."),
]
Compiled: TypeAlias = Annotated[
    bool, typer.Option("--compile", help="Compile the steps: single texts are faster, the first takes some seconds.")
]
CompiledBatches: TypeAlias = Annotated[
    bool,
    typer.Option("--compile-batches", help="Those of large batches too: a little faster."),
]
Device: TypeAlias = Annotated[str | None, typer.Option(help="Where the model runs: cpu, cuda; left out, the best.")]


def predictor_of(run: str, kit: Kit, device: str | None, int8: bool = False, compiled: Compiling = False) -> Predictor:
    """The model of a run, ready to answer."""
    from kit.predicting.predictor import load

    return _telling(lambda: load(run, kit, device=device, int8=int8, compiled=compiled))


def opened_run(run: str, kit: Kit, device: str | None) -> OpenedRun:
    """The model of a run, and what it was made with."""
    from kit.opening import open_run

    return _telling(lambda: open_run(run, kit, device=device))


def joined(words: list[str] | None, draft: str | None = None) -> str | None:
    """What was said of the search, in one line."""
    import shlex

    said = [*(words or ()), *([shlex.quote(f"draft={draft}")] if draft else ())]
    return " ".join(said) or None


def _telling(work: Callable[[], Opened]) -> Opened:
    from kit.opening import DifferentRunWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DifferentRunWarning)
        found = work()
    differences = [str(warning.message) for warning in caught if issubclass(warning.category, DifferentRunWarning)]
    for text in differences[:SHOWN]:
        errors.print(f"[yellow]warning:[/] {escape(text)}", highlight=False, soft_wrap=True)
    if len(differences) > SHOWN:
        errors.print(f"[yellow]warning:[/] and {len(differences) - SHOWN} more differences", highlight=False)
    for warning in caught:
        if not issubclass(warning.category, DifferentRunWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return found
