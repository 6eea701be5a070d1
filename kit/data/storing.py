"""Derived files that appear whole or not at all, whichever process makes them first."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.data.errors import DataError


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into that takes its place under its name when the block ends well, and is removed otherwise.

    Two processes that make the same folder do no harm: the content is a function of the name, and the first stays.
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
