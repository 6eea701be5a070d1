"""Texts to continue or fill in: a file, whole or as documents; its end is for validation where that has no file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from pydantic import Field

from kit import Data, DataError, Example, Lines, Options, Split, Task, digest_of, find_file
from kit_data.documents import Documents, LineDocuments, Pieces


class PlainTextOptions(Options):
    """Options of `plain_text`. Paths are read from the recipe's folder; `~` and `$NAME` are filled in."""

    use: Literal["plain_text"] = "plain_text"
    train: str
    """The file of text, plain or gzip."""
    validation: str | None = None
    """The file to watch training with; left out, a share of the end of `train`."""
    test: str | None = None
    """The file to judge the trained model with; left out, a share of the end of `train`."""
    validation_share: float = Field(default=0.1, ge=0.0, lt=1.0)
    """How much of `train` is for validation, where that has no file; 0 for none."""
    test_share: float = Field(default=0.0, ge=0.0, lt=1.0)
    """How much of `train`, after what is for validation, is for the test, where that has no file; 0 for none."""
    documents: Literal["file", "blank_line", "line"] = "file"
    """What one document is: the whole file, what stands between blank lines, or a line."""


class PlainTextData(Data):
    """Documents of text."""

    options_type = PlainTextOptions
    options: PlainTextOptions

    @property
    def task(self) -> Task:
        """Text."""
        return "text"

    def splits(self) -> tuple[Split, ...]:
        """Those that have a file or a share."""
        return tuple(split for split in get_args(Split) if self._file(split) or self._bounds(split))

    def open(self, split: Split) -> Sequence[Example]:
        """The documents of a split."""
        named = self._file(split)
        bounds = (0.0, 1.0) if named and split != "train" else self._bounds(split)
        if bounds is None:
            raise DataError(f"there is no {split} split: name its file or give it a share", hint=f"{split}_share: 0.1")
        lines = self._lines(split)
        examples = self._documents(lines, *bounds)
        if not len(examples):
            raise DataError(f"no text is left for the {split} split", path=lines.path)
        return examples

    def fingerprint(self) -> str:
        """Of the content of the files and the options that are not their names."""
        options = self.options.model_dump(mode="json", exclude=set(get_args(Split)))
        return digest_of([options, {split: self._lines(split).digest for split in self.splits()}])

    def _file(self, split: Split) -> str | None:
        named: str | None = getattr(self.options, split)
        return named

    def _lines(self, split: Split) -> Lines:
        return Lines(find_file(self._file(split) or self.options.train, self.folder))

    def _bounds(self, split: Split) -> tuple[float, float] | None:
        """From where to where in `train` a split goes, as shares; None where it has none of it."""
        validation = 0.0 if self.options.validation else self.options.validation_share
        test = 0.0 if self.options.test else self.options.test_share
        if validation + test >= 1.0:
            raise DataError(f"validation_share {validation} and test_share {test} leave nothing to train on")
        ends = {"train": 1.0 - validation - test, "validation": 1.0 - test, "test": 1.0}
        starts = {"train": 0.0, "validation": ends["train"], "test": ends["validation"]}
        return (starts[split], ends[split]) if ends[split] > starts[split] else None

    def _documents(self, lines: Lines, first: float, last: float) -> Sequence[Example]:
        if self.options.documents == "file":
            start, stop = (lines.start + int(share * (lines.size - lines.start)) for share in (first, last))
            return Pieces(lines, lines.border(start), lines.border(stop))
        blank = lines.blank()
        if self.options.documents == "line":
            kept = np.flatnonzero(~blank)
            return LineDocuments(lines, kept[int(first * len(kept)) : int(last * len(kept))])
        starts = np.flatnonzero(~blank & np.concatenate([[True], blank[:-1]]))
        stops = np.flatnonzero(~blank & np.concatenate([blank[1:], [True]])) + 1
        part = slice(int(first * len(starts)), int(last * len(starts)))
        return Documents(lines, starts[part], stops[part])
