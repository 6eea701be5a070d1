"""What is no more than a report never ends a training: rows that are none, a picture that is a folder, no folder."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
from models.tiny_models import KIT
from runs import tiny_runs

from kit import KitError, RunDirectory
from kit.runs.metrics_file import MetricsFile
from kit.training.metrics_logger import MetricsLogger
from kit.training.progress import SilentReporter
from kit.training.train import train
from kit_loss_plot import callback

SMALL = ["training.steps=2", "data.train=40"]
BAD_LINES = ["²,1.0,2", "9" * 5000 + ",1.0,2", "2", "2,1.0", "2,1.0,2,3", "2,one,2", "2,²,2", '2,"1', "", "\x00,1,2"]


@pytest.mark.parametrize("bad", BAD_LINES, ids=lambda line: ascii(line)[:12])
def test_a_row_that_is_none_is_named_and_left_out(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_text(f"step,loss,tokens\n1,2.5,10\n{bad}\n3,-1e-05,nan\n4,2.")
    metrics = MetricsFile(path)
    assert [row["step"] for row in metrics.rows()] == ["1", "3"]
    with pytest.warns(UserWarning, match=r"metrics\.csv: 1 lines are not a step and its numbers.*: line 3 is"):
        metrics.rewind(5)
    metrics.append(4, {"loss": 0.5, "new": 1.0})
    assert path.read_text() == "step,loss,tokens,new\n1,2.5,10,\n3,-1e-05,nan,\n4,0.5,,1.0\n"


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"\n\n\n", b'"' * 300_000 + b"\n1,2\n", b"a,a\n1,2\n", b"x" * 300_000]
)
def test_a_file_that_holds_no_metrics_is_begun_anew(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(content)
    metrics = MetricsFile(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics.rewind(5)
    metrics.append(1, {"loss": 0.5})
    assert [(row["step"], row["loss"]) for row in MetricsFile(path).rows()] == [("1", "0.5")]


def test_metrics_that_were_written_are_all_read(tmp_path: Path) -> None:
    metrics = MetricsFile(tmp_path / "metrics.csv")
    values = [1e300, 1.5e-17, float("inf"), float("-inf"), float("nan"), 0.1, -2.0, 7, 0.0]
    for step, value in enumerate(values):
        metrics.append(step, {"loss": value})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metrics.rewind(100)
    assert [row["loss"] for row in metrics.rows()] == [str(value) for value in values]


def test_a_plot_that_cannot_be_written_is_said_and_training_ends_well(tmp_path: Path, capsys, monkeypatch) -> None:
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *SMALL)
    (run.reports / "loss.png").mkdir()
    plot = callback.plot_losses
    with tiny_runs.alone(tmp_path), monkeypatch.context() as patch:
        patch.setattr("kit_loss_plot.callback.plot_losses", plot)
        done = train(KIT.recipe(run.recipe, ["training.steps=3"]), KIT, run)
    assert done.step == 3 and "no plot of the loss" in capsys.readouterr().out


def test_a_run_without_its_empty_folders_goes_on(tmp_path: Path) -> None:
    """As an exported one, and as one that came from an archive that keeps no empty folders."""
    run = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *SMALL)
    exported = RunDirectory(tmp_path / "exported")
    exported.path.mkdir()
    for path in (run.recipe, run.weights, run.weights_digest):
        shutil.copy(path, exported.path)
    shutil.copytree(run.tokenizer, exported.tokenizer)
    with tiny_runs.alone(tmp_path):
        done = train(KIT.recipe(exported.recipe, ["training.steps=2"]), KIT, RunDirectory.open(exported.path))
    assert done.ending == "finished" and (exported.reports / "test.json").is_file()


def test_a_run_that_could_not_start_leaves_no_empty_folder(tmp_path: Path) -> None:
    said = SilentReporter()
    with tiny_runs.alone(tmp_path), pytest.raises(KitError):
        train(KIT.recipe(tiny_runs.PAIRS, ["training.batch_tokens=1"]), KIT, reporter=said)
    assert not list((tmp_path / "runs").iterdir())


def test_curves_that_cannot_be_written_are_left_out(tmp_path: Path) -> None:
    run = RunDirectory.create("board", tmp_path)
    (run.path / "tensorboard").write_text("a file")
    with pytest.warns(UserWarning, match="no curves for TensorBoard: cannot write"):
        book = MetricsLogger(run)
    book.write(10, {"loss": 1.0})
    book.close()
    assert len(MetricsFile(run.metrics).rows()) == 1
