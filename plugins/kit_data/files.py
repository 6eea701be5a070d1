"""Data that is files: which splits there are, and a fingerprint of what is in them wherever they lie."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from kit import Data, Lines, Split, digest_of, find_file


class FileData(Data):
    """Data whose options `train`, `validation` and `test` name files."""

    def splits(self) -> tuple[Split, ...]:
        """Those that files are named for."""
        return tuple(split for split in get_args(Split) if getattr(self.options, split) is not None)

    def files(self, split: Split) -> Sequence[Lines]:
        """The files that a split is read from."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Of the content of the files and the options that are not their names."""
        options: Mapping[str, object] = self.options.model_dump(mode="json", exclude=set(get_args(Split)))
        content = {split: [lines.digest for lines in self.files(split)] for split in self.splits()}
        return digest_of([options, content])

    def find(self, name: str) -> Path:
        """A file by the name it has in the recipe."""
        return find_file(name, self.folder)
