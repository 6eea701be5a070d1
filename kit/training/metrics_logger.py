"""MetricsLogger: the figures of every step in a CSV file and in TensorBoard."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from kit.runs.metrics_file import MetricsFile
from kit.runs.run_directory import RunDirectory

BOARD_EVERY = 10
"""The interval of steps that are logged to TensorBoard, which is slow; validations always are."""


class MetricsLogger:
    """Logs into a run directory; only rank 0 has one. TensorBoard is used where it is installed."""

    def __init__(self, run: RunDirectory, start: int = 0) -> None:
        self.run = run
        self.file = MetricsFile(run.metrics)
        self.file.rewind(start)
        self._board: Any = None
        if find_spec("tensorboard") is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                board = import_module("torch.utils.tensorboard")
            # Also at step 0: a run that was stopped before its first checkpoint starts again in the same directory.
            folder = run.path / "tensorboard"
            try:
                self._board = board.SummaryWriter(str(folder), purge_step=start + 1)
            except OSError as error:
                warnings.warn(f"no curves for TensorBoard: cannot write {folder} ({error.strerror})", stacklevel=2)

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Log the figures of a step."""
        self.file.append(step, figures)
        if self._board is not None and (step % BOARD_EVERY == 0 or any("validation" in name for name in figures)):
            for name, value in figures.items():
                self._board.add_scalar(name.replace("validation_", "validation/"), value, step)

    def close(self) -> None:
        """Flush and close the files."""
        if self._board is not None:
            self._board.close()
