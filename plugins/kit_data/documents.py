"""Documents inside a file of text, read when asked for: pieces of the whole, single lines, or runs of lines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from kit import Example, Lines

PIECE = 1 << 16  # bytes: a file of any size is read in pieces about as long as this
REACH = 1 << 12  # how far before the end of a piece a line end or a space is looked for


class InFile(Sequence[Example]):
    """Examples found in a file by number."""

    lines: Lines

    @abstractmethod
    def example(self, index: int) -> Example:
        """Number `index`, which is in range."""

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


class Pieces(InFile):
    """One document, from one offset to another, in pieces that continue each other."""

    def __init__(self, lines: Lines, start: int, stop: int) -> None:
        self.lines = lines
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return -(-(self.stop - self.start) // PIECE)

    def example(self, index: int) -> Example:
        """A piece; its borders depend only on where it starts and what is written there."""
        return Example(self.lines.text(self._border(index), self._border(index + 1)), continues=index > 0)

    def _border(self, index: int) -> int:
        offset = self.start + index * PIECE
        if index == 0:
            return self.start
        return self.stop if offset >= self.stop else max(self.start, self.lines.border(offset, REACH))


class LineDocuments(InFile):
    """Each of these lines is a document."""

    def __init__(self, lines: Lines, kept: NDArray[np.int64]) -> None:
        self.lines = lines
        self.kept = kept

    def __len__(self) -> int:
        return len(self.kept)

    def example(self, index: int) -> Example:
        """A line."""
        return Example(self.lines[int(self.kept[index])])


class Documents(InFile):
    """Runs of lines, from `starts` up to `stops`."""

    def __init__(self, lines: Lines, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self.lines = lines
        self.starts = starts
        self.stops = stops

    def __len__(self) -> int:
        return len(self.starts)

    def example(self, index: int) -> Example:
        """The lines of a document, without the last line end."""
        text = self.lines.span(int(self.starts[index]), int(self.stops[index]))
        return Example(text.removesuffix("\n").removesuffix("\r"))
