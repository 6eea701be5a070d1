"""Writing files so that a crash, a kill or a full disk leaves either the old content or the new, never half of one."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kit.errors import KitError

_REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "writing there is not permitted",
    errno.EPERM: "writing there is not permitted",
}


class StorageError(KitError):
    """A file of a run could not be written; what was there before is intact."""


@contextmanager
def explained(path: Path, kept: str = "") -> Iterator[None]:
    """Turn what the operating system says about writing `path` into a sentence; `kept` says what is still there."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, "the operating system refused")
        message = f"cannot write {path}: {reason} ({error.strerror or error})."
        raise StorageError(f"{message} {kept}".rstrip()) from error


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder last through a power cut; where folders cannot be opened there is nothing to do."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def synced(path: Path) -> Iterator[BinaryIO]:
    """A new file that is on the disk when the block ends; a file that is already there is an error."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write a new file to (and sync), which takes the place of `path` when the block ends well.

    The temporary file is in the same folder: a rename from another file system is a copy, and a copy can be cut short.
    """
    with explained(path, kept=f"The {path.name} that was there is unchanged." if path.exists() else ""):
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        try:
            yield temporary
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file as a whole."""
    with replacing(path) as temporary, synced(temporary) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Replace a text file as a whole, in UTF-8."""
    write_bytes(path, text.encode())


def remove_temporaries(folder: Path) -> None:
    """Remove what a killed `write_bytes` left behind."""
    for leftover in folder.glob(".*.tmp"):
        with suppress(OSError):
            leftover.unlink()
