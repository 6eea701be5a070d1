"""One training at a time in a run's folder; the claim ends with the process, however it ends."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kit.runs.atomic import explained, remove_temporaries
from kit.runs.directory import RunDirectory, RunError

if sys.platform != "win32":
    import fcntl

_FILE = ".claim"


@contextmanager
def claimed(run: RunDirectory) -> Iterator[None]:
    """Hold a run while it is trained; RunError if another process holds it. Of many processes the first calls it."""
    with explained(run.path):
        file = open(run.path / _FILE, "a+")  # noqa: SIM115 - closed below, and closing is what releases it
    with file:
        if not _take(file):
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise RunError(f"{run.path} is being trained by {holder}; wait for it, or stop it first.")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        remove_temporaries(run.path)
        yield


def is_claimed(path: Path) -> bool:
    """Whether a run is being trained now."""
    try:
        with open(path / _FILE) as file:
            return not _take(file)
    except OSError:
        return False


def _take(file: IO[str]) -> bool:
    if sys.platform != "win32":  # there are no advisory locks there, and runs are not guarded
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
