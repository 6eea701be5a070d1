"""Putting a finished folder in its place, and taking one away, so that a kill at any moment loses nothing."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from kit.runs.atomic import remove_temporaries, sync_folder

_LEFTOVER = re.compile(r"^\.(saving|replaced|removed)-(.+?)(?:\.[0-9a-f]{8})?$")


def begin(path: Path) -> Path:
    """An empty folder beside `path` to write into; whatever a killed save left there is removed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tidy(path.parent, path.name)
    temporary = saving(path)
    temporary.mkdir()
    return temporary


def saving(path: Path) -> Path:
    """Where `path` is written before it is complete; the same for all processes."""
    return path.with_name(f".saving-{path.name}")


def publish(path: Path) -> None:
    """Give the folder that was written for `path` its name; one that has the name already is replaced."""
    temporary = saving(path)
    sync_folder(temporary)
    if path.exists():
        # A folder cannot be replaced in one move; `tidy` undoes the first of these two if a kill comes between.
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
    """Remove what was written for `path` and never published."""
    with suppress(OSError):
        shutil.rmtree(saving(path))


def remove(path: Path) -> None:
    """Take a published folder away; renamed first, so that it is never seen half empty."""
    doomed = path.with_name(f".removed-{path.name}.{secrets.token_hex(4)}")
    os.rename(path, doomed)
    shutil.rmtree(doomed)


def tidy(folder: Path, name: str | None = None) -> None:
    """Clean up after a kill, for one name or for all; a folder that was about to be replaced gets its name back."""
    remove_temporaries(folder)
    for path in sorted(folder.iterdir()):
        match = _LEFTOVER.match(path.name)
        if not match or name not in (None, match[2]):
            continue
        if match[1] == "replaced" and not (folder / match[2]).exists():
            os.rename(path, folder / match[2])
        elif path.is_dir():
            shutil.rmtree(path)
