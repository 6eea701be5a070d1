"""One streaming pass over a text file: unpacked if need be, checked to be UTF-8, hashed, its line offsets written."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import shutil
import zlib
from pathlib import Path

import numpy as np

from kit.data.errors import DataError
from kit.data.paths import cache_folder
from kit.data.storing import whole_folder

CHUNK = 1 << 22
VERSION = 1  # goes up when the files of an index change meaning


def index_of(path: Path, quoted: bool = False) -> Path:
    """The folder that holds the index of a file: `offsets` (int64: each line's start, then the end) and `meta.json`.

    Made when there is none for this file at this size and time of change; never beside it, where it may be read-only.
    """
    try:
        stat = path.stat()
        packed = path.open("rb").read(2) == b"\x1f\x8b"
    except OSError as error:
        raise DataError(f"cannot read it: {error.strerror}", path=path) from error
    identity = json.dumps([VERSION, str(path.resolve()), stat.st_size, stat.st_mtime_ns, quoted])
    folder = cache_folder() / "lines" / hashlib.sha256(identity.encode()).hexdigest()[:32]
    if not folder.is_dir():
        with whole_folder(folder) as draft:
            content = _unpack(path, draft / "content") if packed else path
            digest = _scan(path, content, draft / "offsets", quoted)
            final = folder / "content" if packed else path.resolve()
            (draft / "meta.json").write_text(json.dumps({"sha256": digest, "content": str(final)}))
    return folder


def _unpack(path: Path, to: Path) -> Path:
    """Gzip cannot be read at random, so it is unpacked once."""
    try:
        with gzip.open(path, "rb") as packed, to.open("wb") as plain:
            shutil.copyfileobj(packed, plain, CHUNK)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"damaged gzip file: {error}", path=path) from error
    return to


def _scan(path: Path, content: Path, to: Path, quoted: bool) -> str:
    """Write the offsets and give the hash; `path` is the file's name in messages."""
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
    at = error.start - (len(error.object) - size)  # the decoder may have held back the start of a character
    line = lines + int(np.searchsorted(ends, at)) + 1
    found = error.object[error.start]
    return DataError(f"not UTF-8: byte 0x{found:02x}", path=path, line=line, hint="convert it: iconv -t utf-8")


def _line_at(content: Path, offset: int) -> int:
    with content.open("rb") as file:
        return file.read(offset).count(b"\n") + 1
