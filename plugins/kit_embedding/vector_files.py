"""Reader of word vector files: word2vec (text or binary) and GloVe; errors name file and line.

Text: one word with its numbers per line, separated by spaces; word2vec starts with a line «words width», GloVe does
not. Binary (word2vec): that line, then for each word its bytes, a space, and its numbers as little-endian float32.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from kit import DataError

Vector = NDArray[np.float32]
LONGEST_WORD = 10_000
"""In bytes; a longer word means that a file is not in word2vec's binary format."""


class Entry(NamedTuple):
    """A word and its unparsed numbers, as text fields or as bytes."""

    word: str
    numbers: list[bytes] | bytes
    line: int | None
    """Line number in a text file, from 1."""


class VectorFile:
    """One file, read as a stream."""

    def __init__(self, path: Path, binary: bool) -> None:
        self.path = path
        self.binary = binary
        self.width = 0

    def entries(self) -> Iterator[Entry]:
        """Every word in order; `width` is set from the first on."""
        empty = True
        try:
            with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as file:
                stream = cast(BinaryIO, file)
                for entry in self._binary(stream) if self.binary else self._text(stream):
                    empty = False
                    yield entry
        except (OSError, EOFError) as error:
            raise DataError(f"cannot be read: {error}", path=self.path) from error
        if empty:
            raise DataError("holds no word", path=self.path, hint="name a file of word2vec or GloVe vectors")

    def vector(self, entry: Entry) -> Vector:
        """The vector of a word, parsed and checked: [F] in float32."""
        try:
            read = (
                np.frombuffer(entry.numbers, "<f4")
                if isinstance(entry.numbers, bytes)
                else np.array(entry.numbers, dtype=np.float32)
            )
        except ValueError as error:
            raise DataError(
                f"{entry.word!r} is not followed by numbers: {error}", path=self.path, line=entry.line
            ) from None
        if not np.isfinite(read).all():
            raise DataError(f"a number of {entry.word!r} is not finite", path=self.path, line=entry.line)
        return read.astype(np.float32)

    def _text(self, file: BinaryIO) -> Iterator[Entry]:
        for line, row in enumerate(file, 1):
            fields = row.rstrip(b"\r\n ").split(b" ")
            if line == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                self.width = int(fields[1])
                continue
            if fields == [b""]:
                continue
            self.width = self.width or len(fields) - 1
            # A few words of published GloVe files hold spaces, so numbers are counted from the end.
            numbers, name = fields[-self.width :], b" ".join(fields[: -self.width])
            if not self.width or not name:
                found = f"a word and {len(fields) - 1} numbers"
                raise DataError(
                    f"found {found}, wanted a word and {self.width or 'its'} numbers", path=self.path, line=line
                )
            yield Entry(_word(name), numbers, line)

    def _binary(self, file: BinaryIO) -> Iterator[Entry]:
        header = file.readline(200)
        fields = header.split()
        if len(fields) != 2 or not all(field.isdigit() for field in fields) or fields[1] == b"0":
            raise DataError(
                f"found {header[:40]!r}, wanted a first line of two numbers, words and width",
                path=self.path,
                line=1,
                hint="write format: text, if it is a text file",
            )
        words, self.width = map(int, fields)
        for number in range(words):
            name = bytearray()
            while (byte := file.read(1)) not in (b" ", b""):
                if byte != b"\n" or name:
                    name += byte
                if len(name) > LONGEST_WORD:
                    raise DataError(f"word {number + 1} of {words} has no end", path=self.path)
            numbers = file.read(4 * self.width)
            if len(numbers) < 4 * self.width:
                raise DataError(f"ends within word {number + 1} of the {words} that it promises", path=self.path)
            yield Entry(_word(bytes(name)), numbers, None)


def _word(name: bytes) -> str:
    # Published files hold a few words that are no valid UTF-8; none of them can be a word of a vocabulary.
    return name.decode("utf-8", errors="replace")
