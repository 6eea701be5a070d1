"""The metrics of a run as a CSV file with growing columns, and the list of runs with their states."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from kit.errors import RecipeError
from kit.files.atomic import explain_os_errors, write_text
from kit.files.strict_reading import read_regular
from kit.recipe.nodes import to_plain
from kit.recipe.yaml_reader import read_yaml
from kit.runs.run_directory import ROOT, RunDirectory, is_run_claimed

_STEP = re.compile(r"[0-9]{1,15}")
_NUMBER = re.compile(r"(-?(inf|[0-9]+(\.[0-9]+)?(e[-+]?[0-9]+)?)|nan)?")


class MetricsFile:
    """Appends rows to `metrics.csv`; written by rank 0 only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = self._read()[0]

    def append(self, step: int, figures: Mapping[str, float]) -> None:
        """Append a row; a new figure adds a column, and the file is rewritten."""
        wanted = ["step", *figures]
        missing = [name for name in wanted if name not in self.columns]
        if missing:
            rows = self.rows()
            self.columns += missing
            self._replace(rows)
        with explain_os_errors(self.path), open(self.path, "a", newline="") as file:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow({"step": step, **figures})

    def rewind(self, step: int) -> None:
        """Remove the rows after a step, and an incomplete last row; the resumed run logs them again."""
        _, rows, damaged = self._read()
        if damaged:
            text = f"{self.path}: {len(damaged)} lines are not a step and its numbers, and are removed: {damaged[0]}"
            warnings.warn(text, stacklevel=2)
        if self.columns:
            self._replace([row for row in rows if int(row["step"]) <= step])

    def rows(self) -> list[dict[str, str]]:
        """All complete rows, as strings."""
        return self._read()[1]

    def _read(self) -> tuple[list[str], list[dict[str, str]], list[str]]:
        """The columns, the complete rows, and the lines that are none."""
        text = read_regular(self.path).decode(errors="replace") if self.path.is_file() else ""
        lines = text.split("\n")[:-1]  # a last row without a line end is incomplete
        found = [next(csv.reader([line[:100_000]]), []) for line in lines]  # a longer cell is an error
        columns, rows, damaged = found[0] if found and found[0][:1] == ["step"] else [], [], []
        for number, cells in enumerate(found[1:], 2):
            row = dict(zip(columns, cells, strict=False))
            if (
                len(cells) == len(columns)
                and _STEP.fullmatch(row.get("step", ""))
                and all(map(_NUMBER.fullmatch, cells))
            ):
                rows.append(row)
            else:
                damaged.append(f"line {number} is {lines[number - 1][:60]!r}")
        return columns, rows, damaged

    def _replace(self, rows: list[dict[str, str]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.path, text.getvalue())


_LATEST = re.compile(rb"step-([0-9]{1,15})\b")


@dataclass(frozen=True)
class RunSummary:
    """One run in the list of runs."""

    label: str
    path: Path
    started: datetime
    step: int | None
    """The step of the newest checkpoint; None before the first."""
    state: Literal["running", "finished", "stopped"]


def summarize(run: RunDirectory) -> RunSummary:
    """The summary of one run."""
    try:
        match = _LATEST.match(read_regular(run.checkpoints / "latest"))
    except OSError:
        match = None
    step = int(match[1]) if match else None
    # The recipe is rewritten if a run is resumed with changes; the lock is not.
    began = run.lock if run.lock.is_file() else run.recipe
    return RunSummary(
        label=run.label,
        path=run.path,
        started=datetime.fromtimestamp(began.stat().st_mtime).astimezone(),
        step=step,
        state="running" if is_run_claimed(run.path) else "finished" if _is_over(run, step) else "stopped",
    )


def _is_over(run: RunDirectory, step: int | None) -> bool:
    """Whether training has ended, by its steps or by early stopping; weights may be older than a resumed training."""
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
    """The number of validations without a new best, from the newest checkpoint."""
    try:
        state = json.loads(read_regular(run.checkpoints / f"step-{step:08d}" / "training.json"))
        return int(state["early_stopping"]["waited"])
    except (OSError, ValueError, OverflowError, KeyError, TypeError, RecursionError):
        return 0


def list_runs(root: Path = ROOT) -> list[RunSummary]:
    """Every run under a folder, by name and number."""
    return [summarize(run) for run in RunDirectory.all(root)]
