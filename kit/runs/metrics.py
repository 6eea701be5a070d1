"""The figures of a run as a CSV file: a row a logged step, columns that may grow, and the way back to a step."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from kit.runs.atomic import explained, write_text


class MetricsFile:
    """Appends rows to `metrics.csv`; only the first process of a training writes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.columns: list[str] = _columns(path)

    def append(self, step: int, figures: Mapping[str, float]) -> None:
        """Add a row; a figure that was not there before makes a new column, and the whole file is then replaced."""
        wanted = ["step", *figures]
        missing = [name for name in wanted if name not in self.columns]
        if missing:
            rows = self.rows()
            self.columns += missing
            self._replace(rows)
        with explained(self.path), open(self.path, "a", newline="") as file:
            csv.DictWriter(file, self.columns, lineterminator="\n").writerow({"step": step, **figures})

    def rewind(self, step: int) -> None:
        """Drop what was logged after a step, and a row that a kill cut short: the resumed run logs it again."""
        if self.columns:
            self._replace([row for row in self.rows() if int(row["step"]) <= step])

    def rows(self) -> list[dict[str, str]]:
        """All complete rows, as text."""
        if not self.path.is_file():
            return []
        text = self.path.read_text()
        whole = text[: text.rfind("\n") + 1]  # a row without its end was cut short
        rows = csv.DictReader(io.StringIO(whole))
        return [row for row in rows if None not in row.values() and str(row.get("step", "")).isdigit()]

    def _replace(self, rows: list[dict[str, str]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.path, text.getvalue())


def _columns(path: Path) -> list[str]:
    if not path.is_file():
        return []
    with open(path, newline="") as file:
        return next(csv.reader(file), [])
