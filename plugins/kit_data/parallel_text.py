"""Pairs of texts: two files of lines, or one of TSV, JSON lines or the SCAN notation; plain or gzip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

from pydantic import Field as Constraint

from kit import DataError, Example, Lines, Options, ParsedLines, Section, Split, Task
from kit_data.files import FileData
from kit_data.records import ColumnReader, Field, JsonReader, Reader, ScanReader, format_of


class TwoFiles(Section):
    """A file of sources and one of targets: a text a line, line by line each other's."""

    source: str
    """The file of sources."""
    target: str
    """The file of targets."""


class ParallelTextOptions(Options):
    """Options of `parallel_text`. Paths are read from the recipe's folder; `~` and `$NAME` are filled in."""

    use: Literal["parallel_text"] = "parallel_text"
    train: str | TwoFiles
    """Training pairs: one file, or `{source: …, target: …}`."""
    validation: str | TwoFiles | None = None
    """Pairs to watch training with."""
    test: str | TwoFiles | None = None
    """Pairs to judge the trained model with."""
    format: Literal["auto", "tsv", "jsonl", "scan"] = "auto"
    """How one file holds pairs; auto goes by its name."""
    source: Field = Constraint(default="")
    """Key (JSON lines) or column from 1 (TSV) of the source; left out: `source`, or the first of two columns."""
    target: Field = Constraint(default="")
    """Key (JSON lines) or column from 1 (TSV) of the target; left out: `target`, or the second of two columns."""


class ParallelTextData(FileData):
    """Sources and targets."""

    options_type = ParallelTextOptions
    options: ParallelTextOptions

    @property
    def task(self) -> Task:
        """Pairs."""
        return "pairs"

    def files(self, split: Split) -> Sequence[Lines]:
        """One file, or two of as many lines."""
        named: str | TwoFiles | None = getattr(self.options, split)
        if named is None:
            raise DataError(f"there is no {split} split: name its files", hint=f"{split}: {{source: …, target: …}}")
        if isinstance(named, str):
            return [Lines(self.find(named))]
        source, target = Lines(self.find(named.source)), Lines(self.find(named.target))
        if len(source) != len(target):
            shorter, longer = sorted((source, target), key=len)
            raise DataError(
                f"it has {len(shorter)} lines and {longer.path} has {len(longer)}; as many were wanted",
                path=shorter.path,
                line=len(shorter),
            )
        return [source, target]

    def open(self, split: Split) -> Sequence[Example]:
        """The pairs of a split."""
        files = self.files(split)
        return SideBySide(*files) if len(files) == 2 else ParsedLines(files[0], PairParser(self._reader(files[0])))

    def _reader(self, lines: Lines) -> Reader:
        form = self.options.format
        known = format_of(lines.path, ("tsv", "jsonl", "scan")) if form == "auto" else form
        source, target = self.options.source, self.options.target
        if known == "scan":
            return ScanReader()
        if known == "jsonl":
            return JsonReader((str(source or "source"), str(target or "target")))
        if not source and not target:
            return ColumnReader("tsv", (0, 1), ("source", "target"), count=2)
        if not isinstance(source, int) or not isinstance(target, int) or min(source, target) < 1:
            raise DataError(f"columns are numbers from 1 on in TSV; found source: {source!r}, target: {target!r}")
        return ColumnReader("tsv", (source - 1, target - 1), ("source", "target"))


@dataclass(frozen=True)
class PairParser:
    """A pair from a record."""

    read: Reader

    def __call__(self, record: str) -> Example:
        """The source stands before the target."""
        source, target = self.read(record)
        return Example(source, target)


class SideBySide(Sequence[Example]):
    """Line by line of two files."""

    def __init__(self, source: Lines, target: Lines) -> None:
        self.sides = source, target

    def __len__(self) -> int:
        return len(self.sides[0])

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        source, target = (lines[index] for lines in self.sides)
        for lines, text in zip(self.sides, (source, target), strict=True):
            if not text.strip():
                raise lines.error(index % len(self), "the line is empty; a text was wanted")
        return Example(source, target)
