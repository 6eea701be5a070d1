"""The cache of derived data: line indexes and token stores, each in a folder named by a digest of its inputs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.data.paths import DataError


def cache_folder() -> Path:
    """The cache folder, created if needed: `$XDG_CACHE_HOME/kitformer` or `~/.cache/kitformer`."""
    home = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(home) if home else Path.home() / ".cache") / "kitformer"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(
            f"cannot make the cache folder: {error.strerror}",
            path=folder,
            hint="set XDG_CACHE_HOME to another folder",
        ) from error
    return folder


def digest_of(value: object) -> str:
    """SHA-256, in hexadecimal, of a JSON-serializable value, independent of the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that is renamed to `folder` if the block succeeds, and removed otherwise.

    Two processes may create the same folder: its content is a function of its name, and the first one stays.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise DataError(f"cannot write derived data: {error.strerror}", path=folder.parent) from error
    try:
        yield draft
        try:
            os.rename(draft, folder)
        except OSError:
            if not folder.is_dir():
                raise
    except OSError as error:
        raise DataError(f"cannot write derived data: {error.strerror}", path=folder) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
