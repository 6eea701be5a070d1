"""The figures of every step, written down: CSV always, TensorBoard where it is installed, and a plot at the end."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kit.runs.directory import RunDirectory
from kit.runs.metrics import MetricsFile

BOARD_EVERY = 10
"""TensorBoard gets every so many steps, since it takes its time."""


class Logbook:
    """Writes into a run's folder; only the first process has one."""

    def __init__(self, run: RunDirectory, start: int = 0) -> None:
        self.run = run
        self.file = MetricsFile(run.metrics)
        self.file.rewind(start)
        self._board: Any = None
        if find_spec("tensorboard") is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                board = import_module("torch.utils.tensorboard")
            # Also at step 0: a run that was stopped before its first checkpoint begins anew in the same folder.
            self._board = board.SummaryWriter(str(run.path / "tensorboard"), purge_step=start + 1)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """A row."""
        self.file.append(step, figures)
        if self._board is not None and (step % BOARD_EVERY == 0 or any("validation" in name for name in figures)):
            for name, value in figures.items():
                self._board.add_scalar(name.replace("validation_", "validation/"), value, step)

    def close(self) -> None:
        """Everything is on the disk."""
        if self._board is not None:
            self._board.close()


def plot_losses(run: RunDirectory) -> Path | None:
    """A picture of the losses over the steps; None where matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        return None
    figure_module = import_module("matplotlib.figure")
    rows = MetricsFile(run.metrics).rows()
    figure = figure_module.Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for column, label in (("loss", "training"), ("validation_loss", "validation")):
        points = [(int(row["step"]), float(row[column])) for row in rows if row.get(column)]
        if points:
            style = {"linewidth": 0.7} if column == "loss" else {"marker": "o", "markersize": 3}
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set(xlabel="step", ylabel="loss (nats a prediction)", title=run.label)
    axes.grid(alpha=0.3)
    axes.legend()
    path = run.reports / "loss.png"
    figure.savefig(path, dpi=120)
    return path
