"""Figures grow, survive a cut row, and go back to a step."""

from __future__ import annotations

from pathlib import Path

from kit.runs.metrics_file import MetricsFile


def test_rows_are_added_and_columns_grow(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.csv")
    metrics.append(1, {"loss": 2.5})
    metrics.append(2, {"loss": 2.0, "validation/word error": 0.5})
    metrics.append(3, {"loss": 0.1})
    assert (tmp_path / "metrics.csv").read_text() == "step,loss,validation/word error\n1,2.5,\n2,2.0,0.5\n3,0.1,\n"


def test_a_resumed_run_goes_on_from_the_checkpoint_and_numbers_are_exact(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.csv")
    for step in range(1, 6):
        metrics.append(step, {"loss": step / 3})
    with open(tmp_path / "metrics.csv", "a") as file:
        file.write("6,2.")  # killed while it wrote
    again = MetricsFile(tmp_path / "metrics.csv")
    again.rewind(3)
    again.append(4, {"loss": 4 / 3})
    assert [(int(row["step"]), float(row["loss"])) for row in again.rows()] == [(n, n / 3) for n in range(1, 5)]


def test_going_back_before_anything_was_logged_does_nothing(tmp_path: Path) -> None:
    MetricsFile(tmp_path / "metrics.csv").rewind(0)
    assert not list(tmp_path.iterdir())
