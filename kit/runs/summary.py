"""What `kit runs` shows of a run, read without loading it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from kit.runs.claim import is_claimed
from kit.runs.directory import ROOT, RunDirectory

_LATEST = re.compile(r"step-(\d+)\b")


@dataclass(frozen=True)
class RunSummary:
    """One line of the list of runs."""

    label: str
    path: Path
    started: datetime
    step: int | None
    """The step of the newest checkpoint; None before the first."""
    state: Literal["running", "finished", "stopped"]


def summarize(run: RunDirectory) -> RunSummary:
    """Look at one run."""
    try:
        match = _LATEST.match((run.checkpoints / "latest").read_text(errors="replace"))
    except OSError:
        match = None
    running = is_claimed(run.path)
    return RunSummary(
        label=run.label,
        path=run.path,
        started=datetime.fromtimestamp(run.recipe.stat().st_mtime).astimezone(),
        step=int(match[1]) if match else None,
        state="running" if running else "finished" if run.weights.is_file() else "stopped",
    )


def list_runs(root: Path = ROOT) -> list[RunSummary]:
    """Every run under a folder, by name and number."""
    return [summarize(run) for run in RunDirectory.all(root)]
