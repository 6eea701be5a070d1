"""Base class of data in files: the available splits, and a fingerprint of content, independent of paths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from kit import Data, Lines, Split, digest_of, find_file
from kit_data.records import LINE_ENDS


class FileData(Data):
    """Data whose options `train`, `validation` and `test` are file names."""

    def splits(self) -> tuple[Split, ...]:
        """The splits with a file name."""
        return tuple(split for split in get_args(Split) if getattr(self.options, split) is not None)

    def files(self, split: Split) -> Sequence[Lines]:
        """The files of a split."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """SHA-256 of the content of the files and of all options but their names."""
        options: Mapping[str, object] = self.options.model_dump(mode="json", exclude=set(get_args(Split)))
        content = {split: [lines.digest for lines in self.files(split)] for split in self.splits()}
        return digest_of([options, content])

    def find(self, name: str) -> Path:
        """The path of a file name in the recipe."""
        return find_file(name, self.folder)

    def lines(self, path: Path, quoted: bool = False) -> Lines:
        """The records of a file; one whose lines end with a carriage return alone would be a single record."""
        lines = Lines(path, quoted=quoted)
        if len(lines) == 1 and not quoted and "\r" in lines[0]:
            raise lines.error(0, f"a carriage return was found inside the only line; {LINE_ENDS}")
        return lines
