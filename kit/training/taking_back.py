"""A start that fails leaves no run behind, so that a name goes on meaning the run before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kit.runs import folders
from kit.runs.claim import is_claimed
from kit.runs.directory import RunDirectory
from kit.runs.metrics import MetricsFile
from kit.training.membership import ProcessMissing


@dataclass
class Start:
    """What this process made for a training."""

    run: RunDirectory | None = None
    """None where it made none: another process did, or the run goes on."""

    def made(self, run: RunDirectory) -> RunDirectory:
        """Remember a folder that was made."""
        self.run = run
        return run


@contextmanager
def taken_back(say: Callable[[str], None]) -> Iterator[Start]:
    """A training starts within; where that fails before its first step, the folder that was made for it is removed."""
    start = Start()
    try:
        yield start
    except ProcessMissing:
        raise  # nothing is wrong with the run, which goes on once the process is back
    except Exception:
        if start.run is not None and _is_untouched(start.run):
            try:
                folders.remove(start.run.path)
            except OSError as problem:
                say(f"{start.run.path} holds nothing, and cannot be removed: {problem.strerror}")
            else:
                say(f"{start.run.path} is removed again: nothing was trained")
        raise


def _is_untouched(run: RunDirectory) -> bool:
    """Whether nothing would be lost: no step, no checkpoint, no weights, and nobody else at it."""
    if not run.path.is_dir() or run.weights.exists() or is_claimed(run.path):
        return False
    return not any(run.checkpoints.iterdir()) and not MetricsFile(run.metrics).rows()
