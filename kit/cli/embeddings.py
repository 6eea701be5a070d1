"""`kit embeddings`: what words look like inside a run, alone and in their context."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kit.cli.arguments import AsJson
from kit.cli.console import print_json, screen
from kit.cli.opening import opened_run
from kit.errors import KitError

if TYPE_CHECKING:
    from kit.inspecting.vectors import Occurrences
    from kit.kit import Kit


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command()(embeddings)


def embeddings(
    context: typer.Context,
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run: its folder, name and number, or name.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="[WORD]...", help="Words to look at closely.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="Texts, one a line, with a tab after the sense where that is known.")
    ] = None,
    texts: Annotated[int, typer.Option(min=2, help="How many texts at the most.")] = 300,
    word2vec: Annotated[bool, typer.Option("--word2vec", help="Learn static vectors from the same texts.")] = False,
    vectors: Annotated[Path | None, typer.Option(help="A file of static vectors, such as GloVe's.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Where to draw the first word, as PNG.")] = None,
    json: AsJson = False,
) -> None:
    """Compare static vectors with those in context: without a file, on the run's own validation data."""
    from kit.inspecting.inspector import inspect
    from kit.inspecting.scatter import draw
    from kit.inspecting.static import read_vectors
    from kit.inspecting.static import word2vec as learn
    from kit.inspecting.vectors import occurrences, read_texts

    kit: Kit = context.obj
    inspector = inspect(opened_run(run, kit, None))
    given = _lines(file) if file is not None else inspector.examples("validation", texts)
    read = list(read_texts(inspector, islice(given, texts)))
    found = occurrences(inspector.model, read)
    if word2vec:
        width = next(iter(found.layers.values())).shape[1]
        spoken = ([t for t, counted in zip(it.tokens, it.counted, strict=True) if counted] for it in read)
        found = found.beside("word2vec", learn(spoken, width))
    if vectors is not None:
        found = found.beside(vectors.stem, read_vectors(vectors))
    for word in words or ():
        if word not in found.words:
            raise KitError(f"{word!r} is not a token of these texts; `kit embeddings --json` lists those that are")
    report = _report(found, words or [])
    if picture is not None:
        if not words:
            raise KitError("a picture is of one word; name it: kit embeddings RUN WORD --picture word.png")
        draw(found.of(words[0]), words[0], picture)
    if json:
        print_json(report)
        return
    _show(report, picture)


def _lines(file: Path) -> Any:
    from kit.contracts.data import Example

    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KitError(f"{file} cannot be read: {error}") from error
    cut = [line.rpartition("\t") for line in lines if line.strip()]
    return (Example(text, label=sense or None) for sense, _, text in cut)


def _report(found: Occurrences, words: list[str]) -> dict[str, Any]:
    from kit.inspecting import geometry

    layers = {}
    for name, vectors in found.layers.items():
        spread = geometry.spread(vectors, found.words)
        layers[name] = {
            "self-similarity": spread.self_similarity,
            "baseline": spread.baseline,
            "adjusted": spread.adjusted,
            "one direction": spread.explained,
        }
    closely: dict[str, Any] = {}
    for word in words:
        own = found.of(word)
        closely[word] = {"times": len(own.words), "layers": {}}
        told = [sense for sense in own.senses if sense is not None]
        several = len(told) == len(own.senses) and len(set(told)) > 1
        if several:
            closely[word]["chance"] = geometry.chance(told)
        for name, vectors in own.layers.items():
            near = geometry.neighbours(found.layers[name], found.words, word)
            of_layer: dict[str, Any] = {"neighbours": near, "self-similarity": geometry.mean_cosine(vectors)}
            if several:
                of_layer["nearest has the same sense"] = geometry.nearest_sense(vectors, told)
                of_layer["silhouette"] = geometry.silhouette(vectors, told)
            closely[word]["layers"][name] = of_layer
    return {"occurrences": len(found.words), "words": sorted(set(found.words)), "layers": layers, "closely": closely}


def _show(report: dict[str, Any], picture: Path | None) -> None:
    out = screen()
    table = Table("layer", "self-similarity", "baseline", "beyond it", "one direction", box=None, pad_edge=False)
    for name, numbers in report["layers"].items():
        table.add_row(escape(name), *(f"{value:.3f}" for value in numbers.values()))
    out.print(table)
    out.print(
        f"[dim]{report['occurrences']} occurrences of {len(report['words'])} words. Self-similarity: the mean cosine "
        "of two vectors of one word; baseline: of two words; one direction: how much of a word's vectors one line "
        "holds[/]",
        highlight=False,
    )
    for word, found in report["closely"].items():
        senses = f"; by chance the nearest has the same sense {found['chance']:.1%}" if "chance" in found else ""
        out.print(f"\n[bold]{escape(word)}[/], {found['times']} times{senses}", highlight=False)
        close = Table("layer", "same sense", "silhouette", "nearest words", box=None, pad_edge=False)
        for name, of_layer in found["layers"].items():
            numbers = (_shown(of_layer.get("nearest has the same sense"), ".1%"), _shown(of_layer.get("silhouette")))
            near = ", ".join(f"{each} {cosine:.2f}" for each, cosine in of_layer["neighbours"][:6])
            close.add_row(escape(name), *numbers, escape(near))
        out.print(close)
    if picture is not None:
        out.print(f"picture      {picture}", highlight=False, soft_wrap=True)


def _shown(value: float | None, form: str = ".2f") -> str:
    return "–" if value is None else format(value, form)
