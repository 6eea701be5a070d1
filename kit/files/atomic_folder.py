"""Atomic creation, replacement and removal of folders: a kill at any moment loses nothing."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from kit.files.atomic import remove_temporaries, sync_folder

_LEFTOVER = re.compile(r"^\.(saving|replaced|removed)-(.+?)(?:\.[0-9a-f]{8})?$")


def begin(path: Path) -> Path:
    """Creates the empty temporary folder of `path`; leftovers of a killed save are removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tidy(path.parent, path.name)
    temporary = saving(path)
    temporary.mkdir()
    return temporary


def saving(path: Path) -> Path:
    """The temporary folder of `path`; the same for all processes."""
    return path.with_name(f".saving-{path.name}")


def publish(path: Path) -> None:
    """Renames the temporary folder of `path` to `path`; an existing folder is replaced."""
    temporary = saving(path)
    sync_folder(temporary)
    if path.exists():
        # A folder cannot be replaced in one rename; `tidy` undoes the first of these two if a kill comes between.
        replaced = path.with_name(f".replaced-{path.name}")
        os.rename(path, replaced)
        try:
            os.rename(temporary, path)
        except OSError:
            os.rename(replaced, path)
            raise
        sync_folder(path.parent)
        shutil.rmtree(replaced)
    else:
        os.rename(temporary, path)
        sync_folder(path.parent)


def discard(path: Path) -> None:
    """Removes the temporary folder of `path`."""
    with suppress(OSError):
        shutil.rmtree(saving(path))


def remove(path: Path) -> None:
    """Removes a published folder; renamed first, so that it is never partly removed under its name."""
    doomed = path.with_name(f".removed-{path.name}.{secrets.token_hex(4)}")
    os.rename(path, doomed)
    shutil.rmtree(doomed)


def tidy(folder: Path, name: str | None = None) -> None:
    """Cleans up after a kill, for one name or all; an interrupted replacement is undone."""
    remove_temporaries(folder)
    for path in sorted(folder.iterdir()):
        match = _LEFTOVER.match(path.name)
        if not match or name not in (None, match[2]):
            continue
        if match[1] == "replaced" and not (folder / match[2]).exists():
            os.rename(path, folder / match[2])
        elif path.is_dir():
            shutil.rmtree(path)
