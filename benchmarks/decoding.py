"""Decoding speed: the same random Marian in the kit, in Hugging Face `generate` and in CTranslate2, in one run.

Batch 1 and 32, greedy and beam 5, width 512 with 6+6 layers and width 256 with 3+3; float32. No text ends before the
most tokens, so that all three write the same number; rounds alternate, and medians are compared. The bars: at least 1.3
times Hugging Face, 1.8 times for batches of 32 with beams, and at least as fast as CTranslate2, in every cell.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

import marian

from kit import EncoderDecoder, Kit, Request, Search, Tokens, arrange

SIZES = {512: 6, 256: 3}
CELLS = [(width, batch, beams) for width in SIZES for batch in (1, 32) for beams in (1, 5)]
ENGINES = ("kit", "Hugging Face", "CTranslate2")


@cache
def search(beams: int) -> Search:
    """Greedy, or beam search by the rule that all three share."""
    registry = Kit().registry
    component: Any = registry.find("search", "greedy" if beams == 1 else "beam").component
    options = component.options_type() if beams == 1 else component.options_type(size=beams, stop="full")
    built: Search = component(options)
    return built


def engines(theirs: Any, folder: Path) -> dict[str, Callable[[list[list[int]], int, int], list[list[int]]]]:
    """For each engine a function of sources, beams and length that gives the tokens it writes."""
    model, translator = marian.ours(theirs), marian.ctranslate2(theirs, folder)
    arrange(model)
    return {
        "kit": lambda sources, beams, length: kit(model, theirs, sources, beams, length),
        "Hugging Face": lambda sources, beams, length: hugging_face(theirs, sources, beams, length),
        "CTranslate2": lambda sources, beams, length: ctranslate2(translator, sources, beams, length),
    }


def kit(model: EncoderDecoder, theirs: Any, sources: list[list[int]], beams: int, length: int) -> list[list[int]]:
    with torch.no_grad():
        session = model.start(Tokens.from_lists(sources, padding=theirs.config.pad_token_id))
        found = search(beams).search(session, Request(length=length, signs=marian.signs(theirs)))
    return [each[0].tokens for each in found]


def hugging_face(theirs: Any, sources: list[list[int]], beams: int, length: int) -> list[list[int]]:
    tokens = Tokens.from_lists(sources, padding=theirs.config.pad_token_id)
    valid = torch.ones_like(tokens.ids) if tokens.valid is None else tokens.valid.long()
    with torch.no_grad():
        ids = theirs.generate(
            input_ids=tokens.ids, attention_mask=valid, max_new_tokens=length, num_beams=beams, do_sample=False,
            early_stopping=beams > 1,
        )  # fmt: skip
    return marian.written(ids, theirs.config.pad_token_id)


def ctranslate2(translator: Any, sources: list[list[int]], beams: int, length: int) -> list[list[int]]:
    texts = [[str(token) for token in source] for source in sources]
    found = translator.translate_batch(
        texts, beam_size=beams, max_decoding_length=length, length_penalty=1.0, max_batch_size=0
    )
    return [[int(token) for token in each.hypotheses[0]] for each in found]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--source", type=int, default=25, help="tokens of the longest source")
    parser.add_argument("--length", type=int, default=32, help="tokens written for each text")
    parser.add_argument("--only", nargs=3, type=int, metavar=("WIDTH", "BATCH", "BEAMS"), help="one cell")
    given = parser.parse_args()
    torch.set_flush_denormal(True)
    title = f"tokens a second, {given.rounds} rounds, {torch.get_num_threads()} threads, vocabulary {given.vocabulary}"
    table = Table("width", "batch", "beams", *ENGINES, "to HF", "to CT2", "", title=title)
    held = True
    for width, depth in SIZES.items():
        theirs = marian.hugging_face(width, depth, width // 64, given.vocabulary, weights=0.05, end=-1e6)
        with tempfile.TemporaryDirectory() as folder:
            writers = engines(theirs, Path(folder) / "marian")
            for cell in CELLS:
                if cell[0] == width and (given.only is None or tuple(given.only) == cell):
                    held &= measure(table, cell, writers, given)
    Console().print(table)
    print("every bar holds" if held else "NOT EVERY BAR HOLDS")


def measure(table: Table, cell: tuple[int, int, int], writers: dict[str, Any], given: Any) -> bool:
    """One row of the table; whether its bars hold."""
    width, batch, beams = cell
    sources = marian.sources(batch, given.vocabulary, given.source // 2 + 1, given.source)
    written = {name: writer(sources, beams, given.length) for name, writer in writers.items()}
    alike = {name: sum(map(list.__eq__, written["kit"], tokens)) / batch for name, tokens in written.items()}
    assert min(alike.values()) > 0.9, f"the engines write different texts: {alike}"
    seconds: dict[str, list[float]] = {name: [] for name in writers}
    for number in range(given.rounds):
        for name in list(writers) if number % 2 else list(reversed(writers)):
            start = time.perf_counter()
            writers[name](sources, beams, given.length)
            seconds[name].append(time.perf_counter() - start)
    speed = {name: batch * given.length / statistics.median(values) for name, values in seconds.items()}
    to_hf, to_ct2 = speed["kit"] / speed["Hugging Face"], speed["kit"] / speed["CTranslate2"]
    bar = 1.8 if batch == 32 and beams == 5 else 1.3
    holds = to_hf >= bar and to_ct2 >= 1.0
    verdict = f"bars {bar} and 1.0: {'hold' if holds else 'DO NOT HOLD'}"
    numbers = [f"{speed[name]:.0f}" for name in ENGINES]
    table.add_row(str(width), str(batch), str(beams), *numbers, f"{to_hf:.2f}", f"{to_ct2:.2f}", verdict)
    return holds


if __name__ == "__main__":
    main()
