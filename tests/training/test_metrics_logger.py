"""What TensorBoard shows of a run, read as TensorBoard reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from kit.runs.run_directory import RunDirectory
from kit.training.metrics_logger import MetricsLogger

Points = list[tuple[int, float]]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create("board", tmp_path)


def shown(run: RunDirectory) -> dict[str, Points]:
    """The points of every curve, by its tag."""
    board = EventAccumulator(str(run.path / "tensorboard"))
    board.Reload()
    return {tag: [(point.step, point.value) for point in board.Scalars(tag)] for tag in board.Tags()["scalars"]}


def write(run: RunDirectory, steps: range, offset: float, start: int = 0) -> None:
    book = MetricsLogger(run, start)
    for step in steps:
        figures = {"loss": step + offset, "learning_rate": 0.5}
        book.write(step, figures | ({"validation_loss": step + 0.25} if step % 15 == 0 else {}))
    book.close()


def test_every_tenth_step_and_every_validation_is_there_with_its_values(run: RunDirectory) -> None:
    write(run, range(1, 31), offset=0.0)
    assert shown(run) == {
        "loss": [(10, 10.0), (15, 15.0), (20, 20.0), (30, 30.0)],
        "learning_rate": [(10, 0.5), (15, 0.5), (20, 0.5), (30, 0.5)],
        "validation/loss": [(15, 15.25), (30, 30.25)],
    }


def test_after_a_resume_steps_past_the_checkpoint_are_gone(run: RunDirectory) -> None:
    write(run, range(1, 41), offset=0.0)
    write(run, range(21, 31), offset=100.0, start=20)
    found = shown(run)
    assert found["loss"] == [(10, 10.0), (15, 15.0), (20, 20.0), (30, 130.0)]
    assert found["validation/loss"] == [(15, 15.25), (30, 30.25)]


def test_a_run_that_was_stopped_before_its_first_checkpoint_begins_anew(run: RunDirectory) -> None:
    write(run, range(1, 31), offset=0.0)
    write(run, range(1, 11), offset=100.0)
    assert shown(run) == {"loss": [(10, 110.0)], "learning_rate": [(10, 0.5)], "validation/loss": []}


def test_without_tensorboard_there_is_the_file_alone(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kit.training.metrics_logger.find_spec", lambda name: None)
    write(run, range(1, 11), offset=0.0)
    assert not (run.path / "tensorboard").exists() and run.metrics.read_text().count("\n") == 11
