"""A process of its own for each contestant: what one does must not slow down or help the others."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from typing import Any


class Worker:
    """Runs `serve(*given, tasks)` in another process, which answers what comes over `tasks` until that is None."""

    def __init__(self, serve: Callable[..., None], *given: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self._tasks, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(*given, theirs), daemon=True)
        self._process.start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        self._tasks.send(None)
        self._process.join()

    def ask(self, task: Any) -> Any:
        """Its answer to a task."""
        self._tasks.send(task)
        return self._tasks.recv()
