"""Documents of a text file, read on access: the whole file in chunks, single lines, or spans of lines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from kit import Example, Lines

CHUNK_BYTES = 1 << 16  # the approximate size of a chunk
BOUNDARY_REACH = 1 << 12  # bytes before the end of a chunk that are searched for a line end or a space


class FileDocuments(Sequence[Example]):
    """The documents of a file as a sequence of examples."""

    lines: Lines

    @abstractmethod
    def example(self, index: int) -> Example:
        """The example of this index, which is in range."""

    @overload
    def __getitem__(self, index: int) -> Example: ...
    @overload
    def __getitem__(self, index: slice) -> list[Example]: ...
    def __getitem__(self, index: int | slice) -> Example | list[Example]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return self.example(index % len(self))


class ChunkedDocument(FileDocuments):
    """One document, between two byte offsets, in consecutive chunks."""

    def __init__(self, lines: Lines, start: int, stop: int) -> None:
        self.lines = lines
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return -(-(self.stop - self.start) // CHUNK_BYTES)

    def example(self, index: int) -> Example:
        """A chunk; its bounds depend only on its index and the content of the file."""
        return Example(self.lines.text(self._chunk_start(index), self._chunk_start(index + 1)), continues=index > 0)

    def _chunk_start(self, index: int) -> int:
        offset = self.start + index * CHUNK_BYTES
        if index == 0:
            return self.start
        return self.stop if offset >= self.stop else max(self.start, self.lines.border(offset, BOUNDARY_REACH))


class LineDocuments(FileDocuments):
    """Documents of one line each."""

    def __init__(self, lines: Lines, indices: NDArray[np.int64]) -> None:
        self.lines = lines
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def example(self, index: int) -> Example:
        """The document on this line."""
        return Example(self.lines[int(self.indices[index])])


class LineSpanDocuments(FileDocuments):
    """Documents of several lines each, from line `starts` up to `stops`."""

    def __init__(self, lines: Lines, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self.lines = lines
        self.starts = starts
        self.stops = stops

    def __len__(self) -> int:
        return len(self.starts)

    def example(self, index: int) -> Example:
        """The document on a span of lines, without the last line end."""
        text = self.lines.span(int(self.starts[index]), int(self.stops[index]))
        return Example(text.removesuffix("\n").removesuffix("\r"))
