"""The contract of data: splits of examples, each read at random by its number, and a fingerprint."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kit.component import Component, Options

Task = Literal["pairs", "text", "labelled"]
"""pairs: a source and the target to write; text: texts to continue or fill in; labelled: a text and its class."""
Split = Literal["train", "validation", "test"]


@dataclass(frozen=True, slots=True)
class Example:
    """One example, as text; a tokenizer makes ids of it."""

    source: str
    """What is read: the source of a pair, the text that has a label, or the text itself."""
    target: str | None = None
    """What is to be written, in a pair."""
    label: str | None = None
    """The class, in a labelled example."""
    references: tuple[str, ...] = ()
    """Every target that counts as right when an answer is judged; empty where `target` is the only one."""
    continues: bool = False
    """Whether this goes on with the text of the example before it: long texts come in pieces, to bound memory."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """The targets that count as right."""
        return self.references or (() if self.target is None else (self.target,))


class Data(Component):
    """Gives examples. Reading starts with `prepare`, once a machine; after that any process may open a split."""

    kind = "data"

    def __init__(self, options: Options, folder: Path | None = None) -> None:
        """folder: where relative paths are looked for first (the recipe's folder), before the current one."""
        self.options = options
        self.folder = folder

    @property
    @abstractmethod
    def task(self) -> Task:
        """What kind of examples these are."""

    @abstractmethod
    def splits(self) -> tuple[Split, ...]:
        """The splits there are; `train` is always one of them."""

    @abstractmethod
    def open(self, split: Split) -> Sequence[Example]:
        """The examples of a split; can be pickled, and holds no more than an index in memory."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of what the examples depend on: content and options, not where files lie."""

    def prepare(self) -> None:
        """Check that everything needed is there and index it; slow things happen here, in one process."""
        for split in self.splits():
            self.open(split)

    def labels(self) -> tuple[str, ...]:
        """The classes, sorted, so that a class's number is its place; empty for other tasks."""
        if self.task != "labelled":
            return ()
        return tuple(sorted({example.label for example in self.open("train") if example.label is not None}))
