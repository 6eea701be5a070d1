"""`kit predict`: predicts outputs for inputs from arguments, a file or standard input."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kit.cli.console import errors
from kit.cli.run_arguments import Compiled, CompiledBatches, Device, RunName, SearchWords, predictor_of, search_words
from kit.errors import KitError

if TYPE_CHECKING:
    from kit.prediction.predictor import Prediction
    from kit.prediction.tasks import Output


def predict(
    context: typer.Context,
    run: RunName,
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="[TEXT]...", help="What to answer; left out, lines of standard input.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Answer the lines of a file.")] = None,
    nbest: Annotated[int, typer.Option(min=1, help="How many answers to give for each text.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Put the score before each answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print an object of JSON a line, for a program.")] = False,
    search: SearchWords = None,
    draft: Annotated[
        str | None, typer.Option(metavar="RUN", help="A run of a smaller model, for a search in which one guesses.")
    ] = None,
    device: Device = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Weights in eight bits: a quarter of the memory, numbers differ a little.")
    ] = False,
    compiled: Compiled = False,
    compiled_batches: CompiledBatches = False,
) -> None:
    """Answer texts with a trained model: translate, continue, fill in (write ___ for what is missing) or classify."""
    if texts and file:
        raise KitError("texts were given, and a file too; give one of them")
    from kit.prediction.inputs import arriving_windows, fixed_windows

    predictor = predictor_of(run, context.obj, device, int8, "batches" if compiled_batches else compiled)
    if not texts and not file and sys.stdin.isatty():
        errors.print("reads lines: type one and press Enter; Ctrl-D ends", style="dim")
    windows: Iterable[Sequence[str]] = (
        [texts] if texts else fixed_windows(_lines(file)) if file else arriving_windows(_stdin_lines())
    )
    formatter = _OutputFormatter(nbest, scores, escape=not texts)
    try:
        for number, found in enumerate(predictor.answers(windows, search=search_words(search, draft), nbest=nbest), 1):
            for line in [_json(found)] if as_json else formatter.lines(number, found):
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            if found.problem and not as_json:
                errors.print(
                    f"{number}: {found.problem}", style="yellow", highlight=False, markup=False, soft_wrap=True
                )
    except BrokenPipeError:  # the reader of the pipe has exited
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


class _OutputFormatter:
    """Formats outputs as tab-separated lines: input number (if nbest > 1), score (if asked for), text."""

    def __init__(self, nbest: int, scores: bool, escape: bool) -> None:
        self.nbest = nbest
        self.scores = scores
        self.escape = escape
        """Whether newlines are escaped, so that each line of input gets one line of output."""

    def lines(self, number: int, found: Prediction) -> Iterator[str]:
        """Yields a line for each output."""
        for output in found.outputs:
            cells = [str(number)] if self.nbest > 1 else []
            cells += [f"{output.score:.4f}"] if self.scores else []
            yield "\t".join([*cells, self._text(output)])

    def _text(self, output: Output) -> str:
        text = output.text
        return text.replace("\r", "\\r").replace("\n", "\\n") if self.escape or self.nbest > 1 else text


def _json(found: Prediction) -> str:
    return json.dumps(asdict(found), ensure_ascii=False)


def _lines(path: Path) -> Iterator[str]:
    """Yields the lines of a file; invalid UTF-8 is decoded to «�»."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from map(_without_newline, file)
    except OSError as error:
        raise KitError(f"{path} cannot be read: {error.strerror}") from error


def _stdin_lines() -> Iterator[str]:
    """Yields the lines of standard input as they arrive.

    The thread that waits for one must not hold the lock of `sys.stdin.buffer`, which Python takes when it exits.
    """
    raw = getattr(sys.stdin.buffer, "raw", None)
    buffer = io.BufferedReader(raw) if raw else sys.stdin.buffer
    with io.TextIOWrapper(buffer, encoding="utf-8", errors="replace", newline="\n") as stream:
        yield from map(_without_newline, stream)


def _without_newline(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
