"""Prediction inputs: reads a stream of inputs in windows, and encodes them to model rows without targets."""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from kit.contracts.objective import RowFormat
from kit.contracts.tokenizer import Special, Tokenizer
from kit.data.rows import pad_rows
from kit.sequence.batch import Batch

WINDOW = 512
"""The most inputs held in memory at a time, to be batched by length."""


def fixed_windows(lines: Iterable[str], size: int = WINDOW) -> Iterator[list[str]]:
    """Splits a stream into windows of `size` lines; the last may be shorter."""
    iterator = iter(lines)
    while window := list(islice(iterator, size)):
        yield window


def arriving_windows(lines: Iterable[str], size: int = WINDOW) -> Iterator[list[str]]:
    """Yields the lines that have arrived, at least one, so that an interactive input need not wait for the next line.

    A reader thread prefetches lines, at most one window.
    """
    arrived: queue.Queue[str | BaseException | None] = queue.Queue(size)
    stopped = threading.Event()

    def put(item: str | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                arrived.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            if all(put(line) for line in lines):
                put(None)
        except BaseException as error:  # reraised in the thread that iterates
            put(error)

    threading.Thread(target=read, daemon=True).start()
    try:
        while True:
            window: list[str] = []
            item = arrived.get()
            while isinstance(item, str):
                window.append(item)
                if len(window) == size:
                    break
                try:
                    item = arrived.get_nowait()
                except queue.Empty:
                    break
            if window:
                yield window
            if isinstance(item, BaseException):
                raise item
            if item is None:
                return
    finally:
        stopped.set()


MASK = re.compile(r"<mask>|_{3,}")
"""The written form of a mask token: `___` or `<mask>`."""
MAX_SHOWN = 5
"""The most unknown words or characters that a message names."""


@dataclass(frozen=True)
class RowTemplate:
    """The special tokens around an input in the rows of a format, and how a longer input is truncated."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    shared: bool = False
    """Whether the output is generated in the same row, so that a quarter of the model's length is reserved for it."""
    kept: str = "first"
    """Which tokens of a longer input are kept: `first` or `last`."""
    masks: bool = False
    """Whether `___` and `<mask>` are mask tokens."""


TEMPLATES: Mapping[RowFormat, RowTemplate] = {
    "seq2seq": RowTemplate(after=(Special.END,)),
    "prefix_lm": RowTemplate((Special.START,), (Special.SEPARATOR,), shared=True),
    "classification": RowTemplate((Special.START,), (Special.END,)),
    "lm_window": RowTemplate((Special.START,), shared=True, kept="last"),
    "mlm_block": RowTemplate((Special.START,), (Special.END,), masks=True),
}
"""The row template of each `RowFormat`, without the target."""


@dataclass(frozen=True)
class EncodedInput:
    """One tokenized input."""

    text: str
    ids: tuple[int, ...]
    """Token ids, including special tokens."""
    masks: tuple[tuple[int, int, int], ...] = ()
    """Mask tokens: the index in `ids`, and the start and end of the mask in the text."""
    problem: str = ""
    """Problems of the encoding: truncation, unknown tokens, no mask; empty if there are none."""


@dataclass(frozen=True)
class InputEncoder:
    """Tokenizes and batches inputs for one model."""

    tokenizer: Tokenizer
    row_format: RowFormat
    length: int
    """The maximum sequence length of the model."""
    features: frozenset[str] = frozenset()
    """The names of the token features that the model reads; all are 0 within one input."""

    @property
    def template(self) -> RowTemplate:
        """The row template of the row format."""
        return TEMPLATES[self.row_format]

    @property
    def longest(self) -> int:
        """The most tokens of an input that fit into a row, without special tokens."""
        reserved = max(1, self.length // 4) if self.template.shared else 0
        return max(0, self.length - reserved - len(self.template.before) - len(self.template.after))

    def encode(self, text: str) -> EncodedInput:
        """Tokenizes one input, truncates it and adds special tokens."""
        ids, masks = self._ids(text)
        problems = [] if text.strip() or self.row_format == "lm_window" else ["the input is empty"]
        if len(ids) > self.longest:
            problems.append(
                f"the input has {len(ids)} tokens, and only the {self.template.kept} {self.longest} of them were read"
            )
        if Special.UNKNOWN in ids:
            problems.append(f"unknown: {self._unknown_pieces(text)}")
        before = self.template.before
        if self.template.kept == "last" and len(ids) > self.longest:
            # An input truncated at its start has no start token.
            ids, before = ids[-self.longest - len(before) :], ()
        ids = ids[: self.longest + len(self.template.before) - len(before)]
        if self.template.masks and not masks:
            problems.append("there is nothing to fill in; write ___ or <mask> where something is missing")
        kept = tuple((len(before) + index, start, stop) for index, start, stop in masks if index < len(ids))
        return EncodedInput(text, (*before, *ids, *self.template.after), kept, "; ".join(problems))

    def batch(self, inputs: Sequence[EncodedInput], indices: Sequence[int]) -> Batch:
        """Batches encoded inputs, without targets; indices: the index of each among all inputs."""
        rows = [np.asarray(each.ids, dtype=np.int64) for each in inputs]
        features = {name: [np.zeros(len(row), dtype=np.int64) for row in rows] for name in sorted(self.features)}
        if self.row_format == "prefix_lm":
            features["prefix"] = [np.ones(len(row), dtype=bool) for row in rows]
        return Batch(pad_rows(rows, **features), None, None, 0, tuple(indices), global_rows=len(rows))

    def _ids(self, text: str) -> tuple[list[int], list[tuple[int, int, int]]]:
        """Returns the token ids of a text and its masks: index in the ids, start and end in the text."""
        if not self.template.masks:
            return self.tokenizer.encode(text), []
        ids: list[int] = []
        masks = []
        at = 0
        for found in MASK.finditer(text):
            start = found.start()
            if self._has_space_prefix and start > at and text[start - 1] == " ":
                start -= 1  # the space before a word is part of its token
            ids += self.tokenizer.encode(text[at:start])
            masks.append((len(ids), start, found.end()))
            ids.append(Special.MASK)
            at = found.end()
        return ids + self.tokenizer.encode(text[at:]), masks

    @cached_property
    def _has_space_prefix(self) -> bool:
        """Whether tokens of words include the space before them (SentencePiece's `▁`)."""
        names = map(self.tokenizer.token, range(len(Special), self.tokenizer.size))
        return any(len(name) > 1 and name.startswith("▁") for name in names)

    def _unknown_pieces(self, text: str) -> str:
        """Lists what the tokenizer encodes as unknown: words, or characters of words that have several tokens."""
        found: dict[str, None] = {}
        for word in dict.fromkeys(MASK.sub(" ", text).split() if self.template.masks else text.split()):
            ids = self.tokenizer.encode(word)
            is_word = ids == [Special.UNKNOWN]
            pieces = [word] if is_word else [each for each in word if Special.UNKNOWN in self.tokenizer.encode(each)]
            found |= dict.fromkeys(pieces if Special.UNKNOWN in ids else ())
        shown = ", ".join(repr(piece) for piece in list(found)[:MAX_SHOWN]) or "some of its white space"
        return shown + (f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else "")
