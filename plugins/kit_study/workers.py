"""Worker processes that run cells: a crash only fails one cell, and workers exit with their parent process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from kit import Kit

POLL_SECONDS = 0.5
"""Seconds between two checks that the parent process is alive."""
SAVE_TIMEOUT = 30.0
"""Seconds that interrupted workers have to save their checkpoints."""
RUN_ELSEWHERE = "is being run by another process"
"""The outcome of a cell that another process has claimed, which is no failure."""
CellCallback = Callable[[Path, str | None], None]


class Workers:
    """A pool of processes that run cells; used as a context manager, processes are reused between runs."""

    def __init__(self, count: int, disabled: Sequence[str] = ()) -> None:
        """Starts no process yet; disabled: plugins that workers do not load."""
        self.count = count
        self.disabled = tuple(disabled)
        self._context = get_context("spawn")
        self._idle: list[_Worker] = []
        self._keep_alive = False

    def __enter__(self) -> Self:
        self._keep_alive = True
        return self

    def __exit__(self, *raised: object) -> None:
        self._keep_alive = False
        self.close()

    def run(self, folders: Sequence[Path], ended: CellCallback) -> None:
        """Runs the cells in these folders; `ended` is called for each, with the error of a failed one."""
        waiting = list(folders)
        busy: dict[Connection, tuple[_Worker, Path]] = {}
        try:
            while waiting or busy:
                while waiting and len(busy) < self.count:
                    worker = self._idle.pop() if self._idle else self._start()
                    folder = waiting.pop(0)
                    worker.connection.send(folder)
                    busy[worker.connection] = worker, folder
                for connection in wait(list(busy)):
                    assert isinstance(connection, Connection)
                    worker, folder = busy.pop(connection)
                    try:
                        failure: str | None = connection.recv()
                    except EOFError:
                        worker.process.join()
                        failure = f"the process that ran it ended with {worker.process.exitcode}"
                    else:
                        self._idle.append(worker)
                    ended(folder, failure)
        except KeyboardInterrupt:
            self._wait_for(list(busy.values()))
            raise
        finally:
            if not self._keep_alive:
                self.close()

    def close(self) -> None:
        """Ends the idle processes."""
        for worker in self._idle:
            worker.connection.close()
            worker.process.join()
        self._idle.clear()

    def _start(self) -> _Worker:
        parent_end, worker_end = self._context.Pipe()
        threads = int(os.environ.get("OMP_NUM_THREADS") or max(1, (os.cpu_count() or 1) // self.count))
        process = self._context.Process(target=_worker_main, args=(worker_end, self.disabled, threads, os.getpid()))
        process.start()
        worker_end.close()
        return _Worker(process, parent_end)

    def _wait_for(self, busy: Sequence[tuple[_Worker, Path]]) -> None:
        """Waits until workers, which also receive Ctrl-C, have saved and exited; kills those that take too long."""
        limit = time.monotonic() + SAVE_TIMEOUT
        for worker, _ in busy:
            worker.process.join(max(0.0, limit - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()


class _Worker:
    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection


def _worker_main(connection: Connection, disabled: Sequence[str], threads: int, parent: int) -> None:
    """Runs the main loop of a worker process."""
    threading.Thread(target=_exit_with_parent, args=(parent,), daemon=True).start()
    import torch

    from kit import Kit

    torch.set_num_threads(threads)
    # An environment variable is inherited by processes that a cell starts.
    left_out = [*disabled, *filter(None, [os.environ.get("KIT_DISABLE_PLUGINS")])]
    os.environ["KIT_DISABLE_PLUGINS"] = ",".join(left_out)
    kit = Kit()
    try:
        while True:
            try:
                folder = connection.recv()
            except EOFError:
                return
            connection.send(try_cell(folder, kit))
    except (KeyboardInterrupt, BrokenPipeError):
        return


def try_cell(folder: Path, kit: Kit) -> str | None:
    """Runs a cell that is not done; returns the error message of a failure and writes it into the cell's folder.

    Returns RUN_ELSEWHERE, and writes nothing, where another process has claimed the cell. Raises only when interrupted.
    """
    import traceback

    from kit import KitError, is_run_claimed, write_text
    from kit_study.cell_run import FAILURE, RESULT, Interrupted, run_cell

    if is_run_claimed(folder):
        return RUN_ELSEWHERE
    if (folder / RESULT).is_file():
        return None
    try:
        run_cell(folder, kit)
    except Interrupted:
        raise KeyboardInterrupt from None
    except KitError as error:
        failure = str(error)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    else:
        return None
    if is_run_claimed(folder):  # a claim after the check above caused the error
        return RUN_ELSEWHERE
    if (folder / RESULT).is_file():  # done in the meantime
        return None
    write_text(folder / FAILURE, failure + "\n")
    return failure


def _exit_with_parent(parent: int) -> None:
    """Ends this process when its parent process has ended."""
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(1)
