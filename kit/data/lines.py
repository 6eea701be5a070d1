"""Random access to the lines of text files of any size, through a cached index of line offsets.

The index is built in one streaming pass, which decompresses gzip, validates UTF-8 and hashes the content.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import mmap
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kit.contracts.data import Example
from kit.data.cache_folder import atomic_folder, cache_folder
from kit.data.paths import DataError

T = TypeVar("T")
CHUNK = 1 << 22
VERSION = 1  # goes up when the files of an index change meaning


def index_of(path: Path, quoted: bool = False) -> Path:
    """The index folder of a file: `offsets` (int64: the start of each line, then the end) and `meta.json`.

    Built in the cache if there is none for this path, size and modification time.
    """
    try:
        stat = path.stat()
        packed = path.open("rb").read(2) == b"\x1f\x8b"
    except OSError as error:
        raise DataError(f"cannot read it: {error.strerror}", path=path) from error
    identity = json.dumps([VERSION, str(path.resolve()), stat.st_size, stat.st_mtime_ns, quoted])
    folder = cache_folder() / "lines" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    if not folder.is_dir():
        with atomic_folder(folder) as draft:
            content = _unpack(path, draft / "content") if packed else path
            digest = _scan(path, content, draft / "offsets", quoted)
            final = folder / "content" if packed else path.resolve()
            (draft / "meta.json").write_text(json.dumps({"sha256": digest, "content": str(final)}))
    return folder


def _unpack(path: Path, to: Path) -> Path:
    """Decompress once, since gzip has no random access."""
    try:
        with gzip.open(path, "rb") as packed, to.open("wb") as plain:
            shutil.copyfileobj(packed, plain, CHUNK)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"damaged gzip file: {error}", path=path) from error
    return to


def _scan(path: Path, content: Path, to: Path, quoted: bool) -> str:
    """Write the offsets and return the hash; `path` names the file in messages."""
    digest = hashlib.sha256()
    decoder = codecs.getincrementaldecoder("utf-8")()
    position, lines, quotes, last = 0, 0, 0, -1
    with content.open("rb") as file, to.open("wb") as offsets:
        start = len(codecs.BOM_UTF8) if file.read(3) == codecs.BOM_UTF8 else 0
        np.array([start], dtype=np.int64).tofile(offsets)
        last = start
        file.seek(0)
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            symbols = np.frombuffer(chunk, dtype=np.uint8)
            ends = np.flatnonzero(symbols == ord("\n"))
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                raise _not_utf8(path, error, len(chunk), lines, ends) from error
            lines += len(ends)
            if quoted:
                seen = quotes + np.cumsum(symbols == ord('"'))
                quotes = int(seen[-1])
                ends = ends[seen[ends] % 2 == 0]
            if len(ends):
                (ends + (position + 1)).astype(np.int64).tofile(offsets)
                last = position + int(ends[-1]) + 1
            position += len(chunk)
        try:
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise DataError("not UTF-8: the file ends inside a character", path=path, line=lines + 1) from error
        if position <= start:
            raise DataError("the file is empty; lines of text were wanted", path=path)
        if quotes % 2:
            line = _line_at(content, last)
            raise DataError(
                "a double quote is opened and never closed", path=path, line=line, hint='write "" for a quote'
            )
        if last < position:
            np.array([position], dtype=np.int64).tofile(offsets)
    return digest.hexdigest()


def _not_utf8(path: Path, error: UnicodeDecodeError, size: int, lines: int, ends: np.ndarray) -> DataError:
    at = error.start - (len(error.object) - size)  # the decoder may hold bytes of the previous chunk
    line = lines + int(np.searchsorted(ends, at)) + 1
    found = error.object[error.start]
    return DataError(f"not UTF-8: byte 0x{found:02x}", path=path, line=line, hint="convert it: iconv -t utf-8")


def _line_at(content: Path, offset: int) -> int:
    with content.open("rb") as file:
        return file.read(offset).count(b"\n") + 1


class Lines(Sequence[str]):
    """The lines of a UTF-8 file, plain or gzip, without line ends, as a sequence.

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
        """Lines `first` up to `last` as one string, with line ends."""
        return self._map[self._offsets[first] : self._offsets[last]].decode("utf-8")

    def text(self, start: int, stop: int) -> str:
        """The string between two byte offsets, each returned by `border`."""
        return self._map[start:stop].decode("utf-8")

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return len(self._map)

    @property
    def start(self) -> int:
        """The byte offset of the first character, after a byte order mark if there is one."""
        return int(self._offsets[0])

    def border(self, offset: int, reach: int = 0) -> int:
        """The byte offset to split text at or before `offset`: after a line end or space within `reach` if any."""
        if offset >= self.size:
            return self.size
        for mark in (b"\n", b" "):
            found = self._map.rfind(mark, max(self.start, offset - reach), offset)
            if found >= 0:
                return found + 1
        while offset > self.start and self._map[offset] & 0xC0 == 0x80:  # a continuation byte
            offset -= 1
        return max(offset, self.start)

    def blank(self) -> NDArray[np.bool_]:
        """[lines]: whether each line is empty."""
        lengths = np.diff(self._offsets)
        first = np.frombuffer(self._map, dtype=np.uint8)[self._offsets[:-1]]
        return np.asarray((first == ord("\n")) | ((lengths == 2) & (first == ord("\r"))), dtype=np.bool_)

    def line_number(self, index: int) -> int:
        """The line number, from 1, where the record of this index starts."""
        if not self.quoted:
            return index + 1
        end, count = int(self._offsets[index]), 1
        for start in range(0, end, 1 << 20):
            count += self._map[start : min(end, start + (1 << 20))].count(b"\n")
        return count

    def parse(self, index: int, parse: Callable[[str], T]) -> T:
        """One line as `parse` reads it; its ValueError becomes a DataError with the line."""
        try:
            return parse(self[index])
        except ValueError as error:
            raise self.error(index, str(error)) from error

    def error(self, index: int, message: str, hint: str | None = None) -> DataError:
        """A DataError for one line."""
        return DataError(message, path=self.path, line=self.line_number(index), hint=hint)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_map", "_offsets")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._open()


class ParsedLines(Sequence[Example]):
    """Examples parsed from one record each; `parse` raises ValueError with what it expected.

    first: the number of header records to skip.
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
        return self.lines.parse(index % len(self) + self.first, self.parse)

    def error(self, index: int, message: str) -> DataError:
        """A DataError for one example, with its file and line."""
        return self.lines.error(index % len(self) + self.first, message)
