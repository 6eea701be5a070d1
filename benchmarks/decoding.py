"""Decoding speed: the same random Marian in the kit, in Hugging Face `generate` and in CTranslate2, in one run.

Batch 1 and 32, greedy and beam 5, width 512 with 6+6 layers and width 256 with 3+3; float32. No text ends before the
most tokens, so that all three write the same number. Each engine has a process of its own, since threads of two in one
process slow each other down; they take turns, and medians are compared. The bars: at least 1.3 times Hugging Face, 1.8
times for batches of 32 with beams, and at least as fast as CTranslate2, in every cell.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import torch
from contestants.process import Worker
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from models import marian

from kit import Kit, Request, Search, TokenBatch, compile_steps, prepack_weights

SIZES = {512: 6, 256: 3}
CELLS = [(width, batch, beams) for width in SIZES for batch in (1, 32) for beams in (1, 5)]
THREADS = torch.get_num_threads()
PAUSE = 0.3
"""Seconds before each turn, in which the threads of the engine before it stop spinning (Intel's do so for 0.2)."""
TURN = 0.5
"""Seconds that a turn takes at least: an engine writes again and again, and the median of all but its first counts."""

SequenceGenerator: TypeAlias = Callable[[list[list[int]], int, int], list[list[int]]]
"""The tokens that an engine writes, given sources, beams and length."""


def search(beams: int) -> Search:
    """Greedy, or beam search by the rule that all three share."""
    component: Any = Kit().registry.find("search", "greedy" if beams == 1 else "beam").component
    options = component.options_type() if beams == 1 else component.options_type(size=beams, stop="full")
    built: Search = component(options)
    return built


def kit(theirs: Any) -> SequenceGenerator:
    """The kit, as `kit predict --compile-batches` loads a model."""
    model = marian.ours(theirs)
    prepack_weights(model)
    compile_steps(model, batches=True)
    searches = {beams: search(beams) for beams in (1, 5)}

    def write(sources: list[list[int]], beams: int, length: int) -> list[list[int]]:
        with torch.inference_mode():
            session = model.start(TokenBatch.from_lists(sources, padding=theirs.config.pad_token_id))
            found = searches[beams].search(
                session, Request(length=length, special_tokens=marian.special_tokens(theirs))
            )
        return [each[0].tokens for each in found]

    return write


def hugging_face(theirs: Any) -> SequenceGenerator:
    """`generate`, its cache on."""

    def write(sources: list[list[int]], beams: int, length: int) -> list[list[int]]:
        tokens = TokenBatch.from_lists(sources, padding=theirs.config.pad_token_id)
        padding_mask = torch.ones_like(tokens.ids) if tokens.padding_mask is None else tokens.padding_mask.long()
        with torch.inference_mode():
            ids = theirs.generate(
                input_ids=tokens.ids, attention_mask=padding_mask, max_new_tokens=length, num_beams=beams,
                do_sample=False,
                early_stopping=beams > 1,
            )  # fmt: skip
        return marian.written(ids, theirs.config.pad_token_id)

    return write


def ctranslate2(theirs: Any, threads: int = THREADS) -> SequenceGenerator:
    """CTranslate2 in float32."""
    with tempfile.TemporaryDirectory() as folder:
        translator = marian.ctranslate2(theirs, Path(folder) / "marian", threads)

    def write(sources: list[list[int]], beams: int, length: int) -> list[list[int]]:
        texts = [[str(token) for token in source] for source in sources]
        found = translator.translate_batch(
            texts, beam_size=beams, max_decoding_length=length, length_penalty=1.0, max_batch_size=0
        )
        return [[int(token) for token in each.hypotheses[0]] for each in found]

    return write


ENGINES = {
    "kit": kit,
    "Hugging Face": hugging_face,
    "CTranslate2": ctranslate2,
    "with 1 thread": lambda theirs: ctranslate2(theirs, 1),
}
"""CTranslate2 twice, since on some machines one thread serves it better; the faster of the two is the one to beat."""


def serve(engine: str, width: int, vocabulary: int, tasks: Connection) -> None:
    """One engine in its process: takes a task, answers with seconds and tokens."""
    torch.set_flush_denormal(True)
    # Threads that torch has started would slow those of another engine in the same process down by half.
    torch.set_num_threads(THREADS if engine in ("kit", "Hugging Face") else 1)
    theirs = marian.hugging_face(width, SIZES[width], width // 64, vocabulary, weights=0.05, end=-1e6)
    write = ENGINES[engine](theirs)
    while (task := tasks.recv()) is not None:
        written = write(*task)
        seconds: list[float] = []
        while sum(seconds) < TURN:
            start = time.perf_counter()
            write(*task)
            seconds.append(time.perf_counter() - start)
        tasks.send((statistics.median(seconds), written))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--source", type=int, default=25, help="tokens of the longest source")
    parser.add_argument("--length", type=int, default=32, help="tokens written for each text")
    parser.add_argument("--only", nargs=3, type=int, metavar=("WIDTH", "BATCH", "BEAMS"), help="one cell")
    given = parser.parse_args()
    title = f"tokens a second, {given.rounds} rounds, {THREADS} threads, vocabulary {given.vocabulary}"
    table = Table("width", "batch", "beams", *ENGINES, "to HF", "to CT2", "bars", title=title)
    cells = [cell for cell in CELLS if given.only is None or tuple(given.only) == cell]
    held = True
    for width in SIZES:
        chosen = [cell for cell in cells if cell[0] == width]
        if not chosen:
            continue
        with ExitStack() as stack:
            engines = {name: stack.enter_context(Worker(serve, name, width, given.vocabulary)) for name in ENGINES}
            for cell in chosen:
                held &= measure(table, cell, engines, given)
    Console(width=100).print(table)
    print("every bar holds" if held else "NOT EVERY BAR HOLDS")


def measure(table: Table, cell: tuple[int, int, int], engines: dict[str, Worker], given: Any) -> bool:
    """One row of the table; whether its bars hold."""
    width, batch, beams = cell
    sources = marian.sources(batch, given.vocabulary, given.source // 2 + 1, given.source)
    written = {name: engine.ask((sources, beams, given.length))[1] for name, engine in engines.items()}
    alike = {name: sum(map(list.__eq__, written["kit"], tokens)) / batch for name, tokens in written.items()}
    assert min(alike.values()) > 0.9, f"the engines write different texts: {alike}"
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(given.rounds):
        for name in list(engines) if number % 2 else list(reversed(engines)):
            time.sleep(PAUSE)
            seconds[name].append(engines[name].ask((sources, beams, given.length))[0])
    speed = {name: batch * given.length / statistics.median(values) for name, values in seconds.items()}
    to_hf = speed["kit"] / speed["Hugging Face"]
    to_ct2 = speed["kit"] / max(speed["CTranslate2"], speed["with 1 thread"])
    bar = 1.8 if batch == 32 and beams == 5 else 1.3
    holds = to_hf >= bar and to_ct2 >= 1.0
    verdict = f"{bar}, 1.0: {'hold' if holds else 'DO NOT HOLD'}"
    numbers = [f"{speed[name]:.0f}" for name in ENGINES]
    table.add_row(str(width), str(batch), str(beams), *numbers, f"{to_hf:.2f}", f"{to_ct2:.2f}", verdict)
    return holds


if __name__ == "__main__":
    main()
