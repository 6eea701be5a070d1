"""Plain text for language modeling: documents of a file, whose end is held out if a split has no file of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from kit import Data, DataError, Example, Lines, Options, Split, Task, digest_of, find_file
from kit_data.documents import ChunkedDocument, LineDocuments, LineSpanDocuments


class PlainTextOptions(Options):
    """Options of `plain_text`. Relative paths start at the recipe's folder; `~` and `$NAME` are expanded."""

    use: Literal["plain_text"] = "plain_text"
    train: str
    """The training file: text, plain or gzip."""
    validation: str | None = None
    """The validation file; if left out, a fraction of the end of `train`."""
    test: str | None = None
    """The test file; if left out, a fraction of the end of `train`."""
    validation_fraction: float = Field(default=0.1, ge=0.0, lt=1.0)
    """The fraction of `train` held out for validation if there is no validation file; 0 for none."""
    test_fraction: float = Field(default=0.0, ge=0.0, lt=1.0)
    """The fraction of `train`, after that for validation, held out for test if there is no test file; 0 for none."""
    documents: Literal["file", "blank_line", "line"] = "file"
    """The unit of a document: the whole file, the lines between blank lines, or a line."""


class PlainTextData(Data):
    """Documents of a text file."""

    options_type = PlainTextOptions
    options: PlainTextOptions

    @property
    def task(self) -> Task:
        """The task: language modeling."""
        return "text"

    def splits(self) -> tuple[Split, ...]:
        """The splits with a file or a fraction of `train`."""
        return tuple(split for split in get_args(Split) if self._file_name(split) or self._bounds(split))

    def open(self, split: Split) -> Sequence[Example]:
        """The documents of a split."""
        file_name = self._file_name(split)
        bounds = (0.0, 1.0) if file_name and split != "train" else self._bounds(split)
        if bounds is None:
            problem = f"there is no {split} split: name its file or give it a fraction"
            raise DataError(problem, hint=f"{split}_fraction: 0.1")
        lines = self._lines(split)
        examples = self._documents(lines, *bounds)
        if not len(examples):
            raise DataError(f"no text is left for the {split} split", path=lines.path)
        return examples

    def fingerprint(self) -> str:
        """SHA-256 of the content of the files and of all options but their names."""
        options = self.options.model_dump(mode="json", exclude=set(get_args(Split)))
        return digest_of([options, {split: self._lines(split).digest for split in self.splits()}])

    def _file_name(self, split: Split) -> str | None:
        file_name: str | None = getattr(self.options, split)
        return file_name

    def _lines(self, split: Split) -> Lines:
        return Lines(find_file(self._file_name(split) or self.options.train, self.folder))

    def _bounds(self, split: Split) -> tuple[float, float] | None:
        """The start and the end of a split in `train`, as fractions; None if it has no part of it."""
        validation = 0.0 if self.options.validation else self.options.validation_fraction
        test = 0.0 if self.options.test else self.options.test_fraction
        if validation + test >= 1.0:
            raise DataError(f"validation_fraction {validation} and test_fraction {test} leave nothing to train on")
        ends = {"train": 1.0 - validation - test, "validation": 1.0 - test, "test": 1.0}
        starts = {"train": 0.0, "validation": ends["train"], "test": ends["validation"]}
        return (starts[split], ends[split]) if ends[split] > starts[split] else None

    def _documents(self, lines: Lines, first: float, last: float) -> Sequence[Example]:
        if self.options.documents == "file":
            start, stop = (lines.start + int(part * (lines.size - lines.start)) for part in (first, last))
            return ChunkedDocument(lines, lines.border(start), lines.border(stop))
        blank = lines.blank()
        if self.options.documents == "line":
            indices = np.flatnonzero(~blank)
            return LineDocuments(lines, indices[int(first * len(indices)) : int(last * len(indices))])
        starts = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]]))
        stops = np.flatnonzero(~blank & np.concatenate([blank[1:], [True]])) + 1
        span = slice(int(first * len(starts)), int(last * len(starts)))
        return LineSpanDocuments(lines, starts[span], stops[span])
