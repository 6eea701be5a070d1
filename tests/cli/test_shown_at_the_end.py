"""What `kit train` shows at the end is there."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from kit.cli.train import _show
from kit.runs.run_directory import RunDirectory
from kit.training.train import TrainingResult


def test_a_plot_is_named_only_where_one_was_made(tmp_path: Path) -> None:
    run = RunDirectory.create("shown", tmp_path)

    def shown() -> str:
        out = Console(file=StringIO(), width=400)
        _show(TrainingResult(run, 4, 4, "finished", 1.0), out)
        assert isinstance(out.file, StringIO)
        return out.file.getvalue()

    assert "loss plot" not in shown() and f"weights      {run.weights}\ngo on        kit resume shown/1" in shown()
    (run.reports / "loss.png").write_bytes(b"a picture")
    assert f"\nloss plot    {run.reports / 'loss.png'}\ngo on" in shown()
