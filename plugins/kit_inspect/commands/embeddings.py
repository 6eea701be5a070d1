"""`kit embeddings`: compares static and contextual word vectors of a run, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from kit import KitError
from kit.cli.console import AsJson, print_json, screen
from kit_inspect.commands.arguments import RunName, inspector_of, lines_of

if TYPE_CHECKING:
    from kit import Example, Kit
    from kit_inspect.token_vectors import Occurrences


def embeddings(
    context: typer.Context,
    run: RunName,
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
    from kit_inspect.embedding_geometry import draw
    from kit_inspect.static_vectors import read_vectors
    from kit_inspect.static_vectors import word2vec as learn
    from kit_inspect.token_vectors import occurrences, tokenized

    kit: Kit = context.obj
    inspector = inspector_of(run, kit)
    examples = _labelled(file) if file is not None else inspector.examples("validation", texts)
    sequences = list(tokenized(inspector, islice(examples, texts)))
    found = occurrences(inspector.model, sequences)
    if word2vec:
        width = next(iter(found.layers.values())).shape[1]
        sentences = ([t for t, is_word in zip(it.tokens, it.is_word, strict=True) if is_word] for it in sequences)
        found = found.with_static_layer("word2vec", learn(sentences, width))
    if vectors is not None:
        found = found.with_static_layer(vectors.stem, read_vectors(vectors))
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


def _labelled(file: Path) -> Iterator[Example]:
    from kit import Example

    parts = [line.rpartition("\t") for line in lines_of(file) if line.strip()]
    return (Example(text, label=sense or None) for sense, _, text in parts)


def _report(found: Occurrences, words: list[str]) -> dict[str, Any]:
    from kit_inspect import embedding_geometry as geometry

    layers = {}
    for name, vectors in found.layers.items():
        spread = geometry.self_similarity(vectors, found.words)
        layers[name] = {
            "self-similarity": spread.self_similarity,
            "baseline": spread.baseline,
            "adjusted": spread.adjusted,
            "one direction": spread.first_pc_variance,
        }
    closely: dict[str, Any] = {}
    for word in words:
        own = found.of(word)
        closely[word] = {"times": len(own.words), "layers": {}}
        senses = [sense for sense in own.senses if sense is not None]
        several = len(senses) == len(own.senses) and len(set(senses)) > 1
        if several:
            closely[word]["chance"] = geometry.sense_chance(senses)
        for name, vectors in own.layers.items():
            near = geometry.neighbours(found.layers[name], found.words, word)
            of_layer: dict[str, Any] = {"neighbours": near, "self-similarity": geometry.mean_cosine(vectors)}
            if several:
                of_layer["nearest has the same sense"] = geometry.nearest_sense(vectors, senses)
                of_layer["silhouette"] = geometry.silhouette(vectors, senses)
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
        "of two vectors of one word; baseline: of two words (anisotropy); one direction: the share of a word's vectors "
        "along their first principal direction[/]",
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
