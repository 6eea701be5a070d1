"""The lines of a text file, read at random through a memory map and an index, in memory that does not grow with it."""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from kit.contracts.data import Example
from kit.data.errors import DataError
from kit.data.indexing import index_of


class Lines(Sequence[str]):
    """The lines of a UTF-8 file, plain or gzip, without their line ends.

    quoted: a line end inside double quotes belongs to the record, as in CSV.
    """

    def __init__(self, path: Path, *, quoted: bool = False) -> None:
        self.path = path
        self.quoted = quoted
        folder = index_of(path, quoted)
        meta = json.loads((folder / "meta.json").read_text())
        self.digest: str = meta["sha256"]
        """SHA-256 of the content, unpacked."""
        self._content = Path(meta["content"])
        self._offsets_file = folder / "offsets"
        self._open()

    def _open(self) -> None:
        self._offsets = np.memmap(self._offsets_file, dtype=np.int64, mode="r")
        with self._content.open("rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.span(index % len(self), index % len(self) + 1).removesuffix("\n").removesuffix("\r")

    def span(self, first: int, last: int) -> str:
        """Lines `first` up to `last` as one text, line ends included."""
        return self._map[self._offsets[first] : self._offsets[last]].decode("utf-8")

    def text(self, start: int, stop: int) -> str:
        """The characters between two offsets in bytes, each given by `border`."""
        return self._map[start:stop].decode("utf-8")

    @property
    def size(self) -> int:
        """Where the file ends, in bytes."""
        return len(self._map)

    @property
    def start(self) -> int:
        """Where the text starts, in bytes: after a byte order mark, if there is one."""
        return int(self._offsets[0])

    def border(self, offset: int, reach: int = 0) -> int:
        """The place to cut text before an offset: after a line end or space within reach, else between characters."""
        if offset >= self.size:
            return self.size
        for mark in (b"\n", b" "):
            found = self._map.rfind(mark, max(self.start, offset - reach), offset)
            if found >= 0:
                return found + 1
        while offset > self.start and self._map[offset] & 0xC0 == 0x80:  # the inside of a character
            offset -= 1
        return max(offset, self.start)

    def blank(self) -> NDArray[np.bool_]:
        """[lines]: which lines have nothing in them."""
        lengths = np.diff(self._offsets)
        first = np.frombuffer(self._map, dtype=np.uint8)[self._offsets[:-1]]
        return np.asarray((first == ord("\n")) | ((lengths == 2) & (first == ord("\r"))), dtype=np.bool_)

    def line_number(self, index: int) -> int:
        """The line of the file, from 1, on which the record of this index starts."""
        if not self.quoted:
            return index + 1
        end, count = int(self._offsets[index]), 1
        for start in range(0, end, 1 << 20):
            count += self._map[start : min(end, start + (1 << 20))].count(b"\n")
        return count

    def error(self, index: int, message: str, hint: str | None = None) -> DataError:
        """A mistake in one line."""
        return DataError(message, path=self.path, line=self.line_number(index), hint=hint)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_map", "_offsets")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class ParsedLines(Sequence[Example]):
    """Examples that are one record each; `parse` makes an example of a record, or says in a ValueError what it wanted.

    first: how many records at the start are no examples (a header).
    """

    def __init__(self, lines: Lines, parse: Callable[[str], Example], first: int = 0) -> None:
        self.lines = lines
        self.parse = parse
        self.first = first

    def __len__(self) -> int:
        return len(self.lines) - self.first

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        at = index % len(self) + self.first
        try:
            return self.parse(self.lines[at])
        except ValueError as error:
            raise self.error(index, str(error)) from error

    def error(self, index: int, message: str) -> DataError:
        """A mistake in one example, with its file and line."""
        return self.lines.error(index % len(self) + self.first, message)
