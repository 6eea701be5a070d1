"""Where a run's recipe lay, so that a resumed run finds the files that it names."""

from __future__ import annotations

import json
from pathlib import Path

from kit.runs.directory import RunDirectory

_NAME = "origin.json"


def write_origin(run: RunDirectory, folder: Path | None) -> None:
    """Note the folder that relative paths start from."""
    run.write(run.path / _NAME, json.dumps({"folder": str((folder or Path()).resolve())}) + "\n")


def read_origin(run: RunDirectory) -> Path | None:
    """The folder that was noted; None where it is gone, as on another machine."""
    try:
        folder = Path(json.loads((run.path / _NAME).read_text())["folder"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return folder if folder.is_dir() else None
