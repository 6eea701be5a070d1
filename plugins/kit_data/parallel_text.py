"""Source-target pairs: two files aligned by line, or one of TSV, JSON lines or SCAN's format; plain or gzip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, overload

from pydantic import Field as Constraint

from kit import DataError, Example, Lines, Options, ParsedLines, Section, Split, Task
from kit_data.files import FileData
from kit_data.records import ColumnReader, Field, JsonReader, Reader, ScanReader, format_of


class TwoFiles(Section):
    """A file of sources and a file of targets, aligned by line."""

    source: str
    """The file of sources."""
    target: str
    """The file of targets."""


class ParallelTextOptions(Options):
    """Options of `parallel_text`. Relative paths start at the recipe's folder; `~` and `$NAME` are expanded."""

    use: Literal["parallel_text"] = "parallel_text"
    train: str | TwoFiles
    """Training pairs: one file, or `{source: …, target: …}`."""
    validation: str | TwoFiles | None = None
    """Validation pairs."""
    test: str | TwoFiles | None = None
    """Test pairs."""
    format: Literal["auto", "tsv", "jsonl", "scan"] = "auto"
    """The format of a file of pairs; auto: by file name."""
    source: Field = Constraint(default="")
    """Key (JSON lines) or column from 1 (TSV) of the source; default: `source`, or the first of two columns."""
    target: Field = Constraint(default="")
    """Key (JSON lines) or column from 1 (TSV) of the target; default: `target`, or the second of two columns."""


class ParallelTextData(FileData):
    """Source-target pairs."""

    options_type = ParallelTextOptions
    options: ParallelTextOptions

    @property
    def task(self) -> Task:
        """The task: pairs."""
        return "pairs"

    def files(self, split: Split) -> Sequence[Lines]:
        """One file of pairs, or two files with the same number of lines."""
        file_names: str | TwoFiles | None = getattr(self.options, split)
        if file_names is None:
            raise DataError(f"there is no {split} split: name its files", hint=f"{split}: {{source: …, target: …}}")
        if isinstance(file_names, str):
            return [self.lines(self.find(file_names))]
        source, target = self.lines(self.find(file_names.source)), self.lines(self.find(file_names.target))
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
        return LinePairs(*files) if len(files) == 2 else ParsedLines(files[0], PairParser(self._reader(files[0])))

    def _reader(self, lines: Lines) -> Reader:
        option = self.options.format
        file_format = format_of(lines.path, ("tsv", "jsonl", "scan")) if option == "auto" else option
        source, target = self.options.source, self.options.target
        if file_format == "scan":
            return ScanReader()
        if file_format == "jsonl":
            return JsonReader((str(source or "source"), str(target or "target")))
        if not source and not target:
            return ColumnReader("tsv", (0, 1), ("source", "target"), count=2)
        if not isinstance(source, int) or not isinstance(target, int) or min(source, target) < 1:
            raise DataError(f"columns are numbers from 1 on in TSV; found source: {source!r}, target: {target!r}")
        return ColumnReader("tsv", (source - 1, target - 1), ("source", "target"))


@dataclass(frozen=True)
class PairParser:
    """Parses a record into a pair."""

    read: Reader

    def __call__(self, record: str) -> Example:
        """The example of a record; the reader gives source, target."""
        source, target = self.read(record)
        return Example(source, target)


class LinePairs(Sequence[Example]):
    """Pairs of two files aligned by line."""

    def __init__(self, source: Lines, target: Lines) -> None:
        self.files = source, target

    def __len__(self) -> int:
        return len(self.files[0])

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        source, target = (lines[index] for lines in self.files)
        for lines, text in zip(self.files, (source, target), strict=True):
            if not text.strip():
                raise lines.error(index % len(self), "the line is empty; a text was wanted")
        return Example(source, target)
