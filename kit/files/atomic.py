"""Atomic writes: a crash, a kill or a full disk leaves either the old content of a file or the new; and file errors."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kit.errors import KitError
from kit.files.strict_reading import open_regular

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
def explain_os_errors(path: Path, kept: str = "") -> Iterator[None]:
    """Turn an OSError about writing `path` into a StorageError; kept: a sentence that says what is still there."""
    try:
        yield
    except OSError as error:
        reason = _REASONS.get(error.errno or 0, "the operating system refused")
        message = f"cannot write {path}: {reason} ({error.strerror or error})."
        raise StorageError(f"{message} {kept}".rstrip()) from error


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that renames in it survive a power cut; does nothing where folders cannot be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def open_synced(path: Path) -> Iterator[BinaryIO]:
    """Create a new file, and sync it when the block ends; FileExistsError if there is one."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def atomic_replace(path: Path) -> Iterator[Path]:
    """A temporary path to write (and sync) a file to; it replaces `path` when the block ends without an error.

    The temporary file is in the same folder: a rename from another file system is a copy, and a copy can be cut short.
    """
    with explain_os_errors(path, kept=f"The {path.name} that was there is unchanged." if path.exists() else ""):
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
    """Replace a file atomically."""
    with atomic_replace(path) as temporary, open_synced(temporary) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically, in UTF-8."""
    write_bytes(path, text.encode())


def remove_temporaries(folder: Path) -> None:
    """Remove what a killed `write_bytes` left behind."""
    for leftover in folder.glob(".*.tmp"):
        with suppress(OSError):
            leftover.unlink()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, read in pieces."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class CheckpointError(KitError):
    """A checkpoint cannot be written as asked, or no usable one is there."""


class DamagedCheckpoint(CheckpointError):
    """A checkpoint differs from what was written: a part is missing, cut short, altered or from another checkpoint."""


class DamagedCheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over for the one before it."""
