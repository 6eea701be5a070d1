"""Progress reporters: a bar on a terminal, lines in a log, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

LINES = 20
"""About how many lines a whole training writes into a log."""


class Reporter(Protocol):
    """Receives what happens in a training, to show it."""

    def start(self, done: int, steps: int) -> None:
        """Training starts, or resumes after `done` steps."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """A step was made, with these figures."""

    def say(self, text: str) -> None:
        """Show a message."""

    def stop(self) -> None:
        """Training ended."""


class SilentReporter:
    """Shows nothing: for ranks other than 0, and for tests."""

    def start(self, done: int, steps: int) -> None:
        """Nothing."""

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Nothing."""

    def say(self, text: str) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Nothing."""


class BarReporter:
    """A rich progress bar with loss, speed and time left."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._smooth = _Smooth()
        self._progress = Progress(
            TextColumn("step {task.completed}/{task.total}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=console,
            refresh_per_second=4,
        )

    def start(self, done: int, steps: int) -> None:
        """Show the bar."""
        self._progress.start()
        self._task = self._progress.add_task("", total=steps, completed=done, figures="")

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=step, figures=self._smooth(figures))

    def say(self, text: str) -> None:
        """A line above the bar."""
        self._progress.console.print(text, highlight=False)

    def stop(self) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()


class LogLinesReporter:
    """Log lines at intervals, without colours or movement."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def start(self, done: int, steps: int) -> None:
        """Start the clock."""
        self._first, self._steps, self._began = done, steps, time.monotonic()
        self._every = max(1, steps // LINES)
        self._smooth = _Smooth()

    def step(self, step: int, figures: Mapping[str, float]) -> None:
        """Log the figures, at intervals."""
        text = self._smooth(figures)
        if step % self._every == 0 or step == self._steps:
            spent = time.monotonic() - self._began
            left = spent / max(1, step - self._first) * (self._steps - step)
            self.say(f"step {step}/{self._steps}  {text}  {duration(left)} left")

    def say(self, text: str) -> None:
        """A line."""
        self.console.print(text, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Nothing more."""


def reporter_for(console: Console) -> Reporter:
    """A bar on a terminal, lines elsewhere."""
    return BarReporter(console) if console.is_terminal and sys.stdout.isatty() else LogLinesReporter(console)


def duration(seconds: float) -> str:
    """A time a person can read: 45 s, 3:20 min, 2:05 h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02d} min"
    return f"{whole // 3600}:{whole % 3600 // 60:02d} h"


class _Smooth:
    """Loss and speed as people read them: single steps jump about too much."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}

    def __call__(self, figures: Mapping[str, float]) -> str:
        for name in ("loss", "tokens_per_second"):
            before = self._values.get(name, figures[name])
            self._values[name] = 0.95 * before + 0.05 * figures[name]
        return f"loss {self._values['loss']:.3f}  {self._values['tokens_per_second']:,.0f} tokens/s"
