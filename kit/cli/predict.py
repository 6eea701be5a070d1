"""`kit predict`: answer texts from arguments, a file or standard input."""

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
from kit.cli.opening import Compiled, CompiledBatches, Device, RunName, SearchWords, joined, predictor_of
from kit.errors import KitError

if TYPE_CHECKING:
    from kit.predicting.prediction import Output, Prediction


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(predict)


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
    from kit.predicting.windows import as_they_come, in_windows

    predictor = predictor_of(run, context.obj, device, int8, "batches" if compiled_batches else compiled)
    windows: Iterable[Sequence[str]] = (
        [texts] if texts else in_windows(_lines(file)) if file else as_they_come(_typed())
    )
    show = _Show(nbest, scores, lines=not texts)
    try:
        for number, found in enumerate(predictor.answers(windows, search=joined(search, draft), nbest=nbest), start=1):
            for line in [_json(found)] if as_json else show.lines_of(number, found):
                sys.stdout.write(line + "\n")
            sys.stdout.flush()
            if found.problem and not as_json:
                errors.print(
                    f"{number}: {found.problem}", style="yellow", highlight=False, markup=False, soft_wrap=True
                )
    except BrokenPipeError:  # who reads this has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None


class _Show:
    """Answers as lines: the text; before it the score, where that is wanted, and first the number of several."""

    def __init__(self, nbest: int, scores: bool, lines: bool) -> None:
        self.nbest = nbest
        self.scores = scores
        self.escape = lines
        """Whether an answer must stay on its line, because it answers a line."""

    def lines_of(self, number: int, found: Prediction) -> Iterator[str]:
        """One for each answer."""
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
    """The lines of a file; bytes that are no UTF-8 read as «�»."""
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            yield from map(_bare, file)
    except OSError as error:
        raise KitError(f"{path} cannot be read: {error.strerror}") from error


def _typed() -> Iterator[str]:
    """The lines of standard input, as they come."""
    with io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8", errors="replace", newline="\n") as stream:
        yield from map(_bare, stream)


def _bare(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")
