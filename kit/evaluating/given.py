"""Examples from files that a person names, read as the data of a run says its examples are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kit.contracts.data import Data, Example, Split, Task
from kit.data.errors import DataError
from kit.data.fingerprints import digest_of
from kit.data.lines import Lines, ParsedLines
from kit.errors import KitError

WANTED = {
    "pairs": "two files, of sources and of targets line by line, or one with a tab between source and target",
    "labelled": "a file with a label, a tab and a text a line",
    "text": "a file of text",
}


class GivenData(Data):
    """One split, `test`, of files.

    Pairs: two files, or one of source, tab, target and, after more tabs, other targets that are right too. Labelled:
    label, tab, text. Text: a document a file.
    """

    def __init__(self, files: Sequence[Path], task: Task, labels: Sequence[str]) -> None:
        if len(files) not in ((1, 2) if task == "pairs" else (1,)):
            raise KitError(f"found {len(files)} files; wanted {WANTED[task]}")
        self.paths = list(files)
        self._task: Task = task
        self._labels = tuple(labels)

    @property
    def task(self) -> Task:
        """That of the run."""
        return self._task

    def splits(self) -> tuple[Split, ...]:
        """One to judge with."""
        return ("test",)

    def labels(self) -> tuple[str, ...]:
        """The classes that the model knows."""
        return self._labels

    def open(self, split: Split) -> Sequence[Example]:
        """The examples, whatever the split is called."""
        files = [Lines(path) for path in self.paths]
        if self.task == "text":
            return [Example(files[0].text(files[0].start, files[0].size))]
        if len(files) == 1:
            return ParsedLines(files[0], _pair if self.task == "pairs" else _labelled)
        sources, targets = files
        if len(sources) != len(targets):
            raise DataError(f"it has {len(sources)} lines and {targets.path} has {len(targets)}", path=sources.path)
        return [Example(source, target) for source, target in zip(sources, targets, strict=True)]

    def fingerprint(self) -> str:
        """Of the content, and of what it is read as."""
        return digest_of([self.task, self._labels, [Lines(path).digest for path in self.paths]])


def _pair(line: str) -> Example:
    source, *targets = line.split("\t")
    if not targets:
        raise ValueError("source, tab and target were wanted, found no tab")
    return Example(source, targets[0], references=tuple(targets))


def _labelled(line: str) -> Example:
    label, tab, text = line.partition("\t")
    if not tab:
        raise ValueError("label, tab and text were wanted, found no tab")
    return Example(text, label=label)
