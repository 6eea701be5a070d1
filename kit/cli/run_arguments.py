"""Command-line arguments that name a run, and loading that run; differences from its lock are printed as warnings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import typer
from rich.markup import escape

from kit.cli.console import errors

if TYPE_CHECKING:
    from kit.kit import Kit
    from kit.prediction.load_run import LoadedRun
    from kit.prediction.predictor import CompileMode, Predictor


T = TypeVar("T")
MAX_SHOWN = 2
"""The most differences that are printed."""
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


def predictor_of(
    run: str, kit: Kit, device: str | None, int8: bool = False, compiled: CompileMode = False
) -> Predictor:
    """Loads the predictor of a run and prints warnings."""
    from kit.prediction.predictor import load

    return _with_warnings_printed(lambda: load(run, kit, device=device, int8=int8, compiled=compiled))


def loaded_run(run: str, kit: Kit, device: str | None) -> LoadedRun:
    """Loads a run and prints warnings."""
    from kit.prediction.load_run import load_run

    return _with_warnings_printed(lambda: load_run(run, kit, device=device))


def search_words(words: list[str] | None, draft: str | None = None) -> str | None:
    """Joins the words of the options `--search` and `--draft` to one search specification."""
    import shlex

    pieces = [*(words or ()), *([shlex.quote(f"draft={draft}")] if draft else ())]
    return " ".join(pieces) or None


def _with_warnings_printed(load: Callable[[], T]) -> T:
    from kit.prediction.load_run import DifferentRunWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DifferentRunWarning)
        loaded = load()
    differences = [str(warning.message) for warning in caught if issubclass(warning.category, DifferentRunWarning)]
    for text in differences[:MAX_SHOWN]:
        errors.print(f"[yellow]warning:[/] {escape(text)}", highlight=False, soft_wrap=True)
    if len(differences) > MAX_SHOWN:
        errors.print(f"[yellow]warning:[/] and {len(differences) - MAX_SHOWN} more differences", highlight=False)
    for warning in caught:
        if not issubclass(warning.category, DifferentRunWarning):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return loaded
