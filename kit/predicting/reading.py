"""Texts that a person gives, as the rows that a model was trained on: framed alike, cut where they are too long."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kit.contracts.objective import Form
from kit.contracts.tokenizer import Special, Tokenizer
from kit.data.batch import Batch
from kit.data.rows import padded

HOLE = re.compile(r"<mask>|_{3,}")
"""How a person writes what is to be filled in: `___` or `<mask>`."""
SHOWN = 5
"""How many unknown pieces of a text are named."""


@dataclass(frozen=True)
class Frame:
    """What stands around a text in the rows of a form, and what is kept of one that is too long."""

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    shared: bool = False
    """Whether the answer is written in the same row, so that a quarter of the model's length is left for it."""
    kept: str = "first"
    """Which end of a text that is too long is read."""
    holes: bool = False
    """Whether `___` and `<mask>` are places to fill in."""


FRAMES: Mapping[Form, Frame] = {
    "pairs": Frame(after=(Special.END,)),
    "prefixed": Frame((Special.START,), (Special.SEPARATOR,), shared=True),
    "texts": Frame((Special.START,), (Special.END,)),
    "windows": Frame((Special.START,), shared=True, kept="last"),
    "blocks": Frame((Special.START,), (Special.END,), holes=True),
}
"""As the rows of `Form`, with the answer left out."""


@dataclass(frozen=True)
class Reading:
    """One text as a model reads it."""

    text: str
    ids: tuple[int, ...]
    """With what stands around it."""
    holes: tuple[tuple[int, int, int], ...] = ()
    """Places to fill in: where in `ids`, and from where to where in the text."""
    problem: str = ""


@dataclass(frozen=True)
class Reader:
    """Reads texts for one model."""

    tokenizer: Tokenizer
    form: Form
    length: int
    """The longest row the model is made for."""
    facts: frozenset[str] = frozenset()
    """What the model wants to know of every token; in one text these are all 0."""

    @property
    def frame(self) -> Frame:
        """What stands around a text."""
        return FRAMES[self.form]

    @property
    def longest(self) -> int:
        """The most tokens of a text that are read."""
        room = max(1, self.length // 4) if self.frame.shared else 0
        return max(0, self.length - room - len(self.frame.before) - len(self.frame.after))

    def read(self, text: str) -> Reading:
        """One text; what could not be read as it is, is told in the `problem`."""
        ids, holes = self._ids(text)
        problems = [] if text.strip() or self.form == "windows" else ["the input is empty"]
        if len(ids) > self.longest:
            problems.append(
                f"the input has {len(ids)} tokens, and only the {self.frame.kept} {self.longest} of them were read"
            )
        if Special.UNKNOWN in ids:
            problems.append(f"unknown: {self._unknown(text)}")
        before = self.frame.before
        if self.frame.kept == "last" and len(ids) > self.longest:
            ids, before = ids[-self.longest - len(before) :], ()  # a text from its middle does not begin here
        ids = ids[: self.longest + len(self.frame.before) - len(before)]
        if self.frame.holes and not holes:
            problems.append("there is nothing to fill in; write ___ or <mask> where something is missing")
        seen = tuple((len(before) + place, start, stop) for place, start, stop in holes if place < len(ids))
        return Reading(text, (*before, *ids, *self.frame.after), seen, "; ".join(problems))

    def batch(self, readings: Sequence[Reading], numbers: Sequence[int]) -> Batch:
        """Rows of what was read, without answers; numbers: which texts they are."""
        rows = [np.asarray(reading.ids, dtype=np.int64) for reading in readings]
        facts = {name: [np.zeros(len(row), dtype=np.int64) for row in rows] for name in sorted(self.facts)}
        if self.form == "prefixed":
            facts["prefix"] = [np.ones(len(row), dtype=bool) for row in rows]
        return Batch(padded(rows, **facts), None, None, 0, tuple(numbers), global_rows=len(rows))

    def _ids(self, text: str) -> tuple[list[int], list[tuple[int, int, int]]]:
        """The tokens of a text, and its holes: the place in them, and from where to where in the text."""
        if not self.frame.holes:
            return self.tokenizer.encode(text), []
        ids: list[int] = []
        holes = []
        at = 0
        for found in HOLE.finditer(text):
            start = found.start()
            if self._spaced and start > at and text[start - 1] == " ":
                start -= 1  # the space before a word is part of its token
            ids += self.tokenizer.encode(text[at:start])
            holes.append((len(ids), start, found.end()))
            ids.append(Special.MASK)
            at = found.end()
        return ids + self.tokenizer.encode(text[at:]), holes

    @cached_property
    def _spaced(self) -> bool:
        """Whether tokens of words begin with the space before them."""
        names = map(self.tokenizer.token, range(len(Special), self.tokenizer.size))
        return any(len(name) > 1 and name.startswith("▁") for name in names)

    def _unknown(self, text: str) -> str:
        """What the tokenizer has no token for: words where a word is a token, else characters."""
        found: dict[str, None] = {}
        for word in dict.fromkeys(HOLE.sub(" ", text).split() if self.frame.holes else text.split()):
            ids = self.tokenizer.encode(word)
            whole = ids == [Special.UNKNOWN]
            pieces = [word] if whole else [each for each in word if Special.UNKNOWN in self.tokenizer.encode(each)]
            found |= dict.fromkeys(pieces if Special.UNKNOWN in ids else ())
        shown = ", ".join(repr(piece) for piece in list(found)[:SHOWN]) or "some of its white space"
        return shown + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
