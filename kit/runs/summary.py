"""What `kit runs` shows of a run, read without loading it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from kit.errors import RecipeError
from kit.recipe.nodes import to_plain
from kit.recipe.yaml_reader import read_yaml
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
    step = int(match[1]) if match else None
    # A recipe is written again when a run goes on with changes; a lock is not.
    began = run.lock if run.lock.is_file() else run.recipe
    return RunSummary(
        label=run.label,
        path=run.path,
        started=datetime.fromtimestamp(began.stat().st_mtime).astimezone(),
        step=step,
        state="running" if is_claimed(run.path) else "finished" if _is_over(run, step) else "stopped",
    )


def _is_over(run: RunDirectory, step: int | None) -> bool:
    """Whether all steps were made, or nothing got better any more; weights may be those of a run before it went on."""
    if not run.weights.is_file():
        return False
    if step is None:
        return True
    try:
        training = to_plain(read_yaml(run.recipe.read_bytes(), str(run.recipe))).get("training") or {}
        steps, patience = training.get("steps"), training.get("patience")
    except (OSError, RecipeError, AttributeError):
        return True
    if not isinstance(steps, int) or step >= steps:
        return True
    return isinstance(patience, int) and _waited(run, step) >= patience


def _waited(run: RunDirectory, step: int) -> int:
    """Measurements without a new best, as the newest checkpoint has it."""
    try:
        state = json.loads((run.checkpoints / f"step-{step:08d}" / "training.json").read_bytes())
        return int(state["patience"]["waited"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0


def list_runs(root: Path = ROOT) -> list[RunSummary]:
    """Every run under a folder, by name and number."""
    return [summarize(run) for run in RunDirectory.all(root)]
