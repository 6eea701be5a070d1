"""Texts with a class each, from TSV, CSV or JSON lines; plain or gzip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field as Constraint

from kit import DataError, Example, Lines, Options, ParsedLines, Split, Task
from kit_data.files import FileData
from kit_data.records import ColumnReader, Field, Format, JsonReader, Reader, format_of, split_cells


class LabelledTextOptions(Options):
    """Options of `labelled_text`. Paths are read from the recipe's folder; `~` and `$NAME` are filled in."""

    use: Literal["labelled_text"] = "labelled_text"
    train: str
    """The file of training examples."""
    validation: str | None = None
    """The file to watch training with."""
    test: str | None = None
    """The file to judge the trained model with."""
    format: Literal["auto", "tsv", "csv", "jsonl"] = "auto"
    """How a file holds examples; auto goes by its name."""
    label: Field = Constraint(default="")
    """Key, column name (the first line is then a header) or column number from 1; left out: `label`, or 1 in TSV."""
    text: Field = Constraint(default="")
    """Key, column name or column number of the text; left out: `text`, or 2 in TSV."""


class LabelledTextData(FileData):
    """Texts and their classes."""

    options_type = LabelledTextOptions
    options: LabelledTextOptions

    @property
    def task(self) -> Task:
        """Labelled."""
        return "labelled"

    def files(self, split: Split) -> Sequence[Lines]:
        """The one file of a split."""
        named: str | None = getattr(self.options, split)
        if named is None:
            raise DataError(f"there is no {split} split: name its file", hint=f"{split}: …")
        path = self.find(named)
        return [Lines(path, quoted=self._format(path) == "csv")]

    def open(self, split: Split) -> Sequence[Example]:
        """The examples of a split."""
        (lines,) = self.files(split)
        reader, first = self._reader(lines)
        return ParsedLines(lines, LabelParser(reader), first)

    def _format(self, path: Path) -> Format:
        form = self.options.format
        return format_of(path, ("tsv", "csv", "jsonl")) if form == "auto" else form

    def _reader(self, lines: Lines) -> tuple[Reader, int]:
        """What reads a record, and how many records are a header."""
        form = self._format(lines.path)
        label, text = self.options.label, self.options.text
        if form == "jsonl":
            return JsonReader((str(label or "label"), str(text or "text"))), 0
        assert form != "scan"
        plain = form == "tsv"
        wanted = (label or (1 if plain else "label"), text or (2 if plain else "text"))
        names = ("label", "text")
        if all(isinstance(field, int) and field >= 1 for field in wanted):
            columns = (int(wanted[0]) - 1, int(wanted[1]) - 1)
            return ColumnReader(form, columns, names, 2 if not label and not text else None), 0
        header = split_cells(lines[0], form)
        for field in wanted:
            if field not in header:
                found = ", ".join(map(repr, header))
                raise lines.error(0, f"a header with the column {field!r} was wanted, found {found}")
        columns = (header.index(str(wanted[0])), header.index(str(wanted[1])))
        return ColumnReader(form, columns, names, len(header)), 1


@dataclass(frozen=True)
class LabelParser:
    """A labelled text from a record."""

    read: Reader

    def __call__(self, record: str) -> Example:
        """The label stands before the text."""
        label, text = self.read(record)
        return Example(text, label=label)
