"""The contract of data: splits of examples with random access, and a fingerprint of their content."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kit.plugin.component import Component, Options

Task = Literal["pairs", "text", "labelled"]
"""pairs: source and target sequences; text: plain text for language modeling; labelled: a sequence and its class."""
Split = Literal["train", "validation", "test"]


@dataclass(frozen=True, slots=True)
class Example:
    """One example as strings, before tokenization."""

    source: str
    """The input: the source of a pair, the labelled sequence, or the text itself."""
    target: str | None = None
    """The target of a pair."""
    label: str | None = None
    """The class of a labelled example."""
    references: tuple[str, ...] = ()
    """All references for evaluation; empty if `target` is the only one."""
    continues: bool = False
    """Whether this continues the document of the previous example: long documents come in pieces, to bound memory."""

    @property
    def accepted(self) -> tuple[str, ...]:
        """The references."""
        return self.references or (() if self.target is None else (self.target,))


class Data(Component):
    """A source of examples. `prepare` is called first, once a machine; then any process may open a split."""

    kind = "data"

    def __init__(self, options: Options, folder: Path | None = None) -> None:
        """folder: the recipe's folder, the base of relative paths, before the current one."""
        self.options = options
        self.folder = folder

    @property
    @abstractmethod
    def task(self) -> Task:
        """The task of the examples."""

    @abstractmethod
    def splits(self) -> tuple[Split, ...]:
        """The available splits; `train` is always one of them."""

    @abstractmethod
    def open(self, split: Split) -> Sequence[Example]:
        """The examples of a split: picklable, with at most an index in memory."""

    @abstractmethod
    def fingerprint(self) -> str:
        """SHA-256, in hexadecimal, of what determines the examples: content and options, not file paths."""

    def prepare(self) -> None:
        """Validate and index the data: everything slow, in one process."""
        for split in self.splits():
            self.open(split)

    def labels(self) -> tuple[str, ...]:
        """The class names, sorted, so that the index is the class id; empty for other tasks."""
        if self.task != "labelled":
            return ()
        return tuple(sorted({example.label for example in self.open("train") if example.label is not None}))
