"""Texts and their class labels, from TSV, CSV or JSON lines; plain or gzip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import Field as Constraint

from kit import DataError, Example, Lines, Options, ParsedLines, Split, Task
from kit_data.files import FileData
from kit_data.records import ColumnReader, Field, Format, JsonReader, Reader, format_of, quoted, split_cells


class LabelledTextOptions(Options):
    """Options of `labelled_text`. Relative paths start at the recipe's folder; `~` and `$NAME` are expanded."""

    use: Literal["labelled_text"] = "labelled_text"
    train: str
    """The training file."""
    validation: str | None = None
    """The validation file."""
    test: str | None = None
    """The test file."""
    format: Literal["auto", "tsv", "csv", "jsonl"] = "auto"
    """The format of the files; auto: by file name."""
    label: Field = Constraint(default="")
    """Key, column name (of a header in the first line) or column number from 1; default: `label`, or 1 in TSV."""
    text: Field = Constraint(default="")
    """Key, column name or column number of the text; default: `text`, or 2 in TSV."""


class LabelledTextData(FileData):
    """Texts and their class labels."""

    options_type = LabelledTextOptions
    options: LabelledTextOptions

    @property
    def task(self) -> Task:
        """The task: classification."""
        return "labelled"

    def files(self, split: Split) -> Sequence[Lines]:
        """The one file of a split."""
        file_name: str | None = getattr(self.options, split)
        if file_name is None:
            raise DataError(f"there is no {split} split: name its file", hint=f"{split}: …")
        path = self.find(file_name)
        return [self.lines(path, quoted=self._format(path) == "csv")]

    def open(self, split: Split) -> Sequence[Example]:
        """The examples of a split."""
        (lines,) = self.files(split)
        reader, first = self._reader(lines)
        return ParsedLines(lines, LabelParser(reader), first)

    def _format(self, path: Path) -> Format:
        file_format = self.options.format
        return format_of(path, ("tsv", "csv", "jsonl")) if file_format == "auto" else file_format

    def _reader(self, lines: Lines) -> tuple[Reader, int]:
        """The reader of a record, and the number of header records."""
        file_format = self._format(lines.path)
        label, text = self.options.label, self.options.text
        if file_format == "jsonl":
            return JsonReader((str(label or "label"), str(text or "text"))), 0
        assert file_format != "scan"
        is_tsv = file_format == "tsv"
        fields = (label or (1 if is_tsv else "label"), text or (2 if is_tsv else "text"))
        names = ("label", "text")
        if all(isinstance(field, int) and field >= 1 for field in fields):
            columns = (int(fields[0]) - 1, int(fields[1]) - 1)
            return ColumnReader(file_format, columns, names, 2 if not label and not text else None), 0
        header = lines.parse(0, partial(split_cells, file_format=file_format))
        for field in fields:
            if field not in header:
                raise lines.error(0, f"a header with the column {field!r} was wanted, found {quoted(header)}")
        columns = (header.index(str(fields[0])), header.index(str(fields[1])))
        return ColumnReader(file_format, columns, names, len(header)), 1


@dataclass(frozen=True)
class LabelParser:
    """Parses a record into a labelled example."""

    read: Reader

    def __call__(self, record: str) -> Example:
        """The example of a record; the reader gives label, text."""
        label, text = self.read(record)
        return Example(text, label=label)
