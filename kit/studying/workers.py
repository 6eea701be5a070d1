"""Processes that run cells: one that dies takes only its cell with it, and all end with whoever started them."""

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
    from kit.kit import Kit

WATCHED = 0.5
"""Seconds between two looks at whether the process that started this one is still there."""
PATIENCE = 30.0
"""Seconds that workers have to save what they are doing when they are asked to stop."""
ELSEWHERE = "is being run by another process"
"""What comes of a cell that another process took in the meantime: nothing went wrong with it."""
Ended = Callable[[Path, str | None], None]


class Workers:
    """A few processes, each running one cell after another; in a `with` they stay from one run to the next."""

    def __init__(self, count: int, without: Sequence[str] = ()) -> None:
        """without: plugins to leave out, as this process was told."""
        self.count = count
        self.without = tuple(without)
        self._context = get_context("spawn")
        self._idle: list[_Worker] = []
        self._stay = False

    def __enter__(self) -> Self:
        self._stay = True
        return self

    def __exit__(self, *raised: object) -> None:
        self._stay = False
        self.close()

    def run(self, folders: Sequence[Path], ended: Ended) -> None:
        """Run the cells in these folders; `ended` is told of each, with what went wrong where something did."""
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
                        trouble: str | None = connection.recv()
                    except EOFError:
                        worker.process.join()
                        trouble = f"the process that ran it ended with {worker.process.exitcode}"
                    else:
                        self._idle.append(worker)
                    ended(folder, trouble)
        except KeyboardInterrupt:
            self._wait_for(list(busy.values()))
            raise
        finally:
            if not self._stay:
                self.close()

    def close(self) -> None:
        """End all that have nothing to do."""
        for worker in self._idle:
            worker.connection.close()
            worker.process.join()
        self._idle.clear()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        threads = int(os.environ.get("OMP_NUM_THREADS") or max(1, (os.cpu_count() or 1) // self.count))
        process = self._context.Process(target=_work, args=(theirs, self.without, threads, os.getpid()))
        process.start()
        theirs.close()
        return _Worker(process, ours)

    def _wait_for(self, busy: Sequence[tuple[_Worker, Path]]) -> None:
        """Ctrl-C reaches the workers too; they save and answer, or are ended."""
        limit = time.monotonic() + PATIENCE
        for worker, _ in busy:
            worker.process.join(max(0.0, limit - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()


class _Worker:
    def __init__(self, process: BaseProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection


def _work(connection: Connection, without: Sequence[str], threads: int, parent: int) -> None:
    """What a worker does until there is nothing more to do."""
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    import torch

    from kit.kit import Kit

    torch.set_num_threads(threads)
    # Through the environment, so that processes that a cell starts leave them out too.
    left_out = [*without, *filter(None, [os.environ.get("KIT_DISABLE_PLUGINS")])]
    os.environ["KIT_DISABLE_PLUGINS"] = ",".join(left_out)
    kit = Kit()
    try:
        while True:
            try:
                folder = connection.recv()
            except EOFError:
                return
            connection.send(attempt(folder, kit))
    except (KeyboardInterrupt, BrokenPipeError):
        return


def attempt(folder: Path, kit: Kit) -> str | None:
    """Run a cell that is not done; gives what went wrong, in words, and leaves it in the cell's folder.

    Gives ELSEWHERE, and leaves nothing, where another process is at the cell. Raises only when interrupted.
    """
    import traceback

    from kit.errors import KitError
    from kit.runs.atomic import write_text
    from kit.runs.claim import is_claimed
    from kit.studying.running import FAILURE, RESULT, Interrupted, run_cell

    if is_claimed(folder):
        return ELSEWHERE
    if (folder / RESULT).is_file():
        return None
    try:
        run_cell(folder, kit)
    except Interrupted:
        raise KeyboardInterrupt from None
    except KitError as error:
        trouble = str(error)
    except Exception as error:
        trouble = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
    else:
        return None
    if is_claimed(folder):  # taken after the look above, which is what went wrong
        return ELSEWHERE
    if (folder / RESULT).is_file():  # and done by now
        return None
    write_text(folder / FAILURE, trouble + "\n")
    return trouble


def _watch(parent: int) -> None:
    """End this process when the one that started it is gone, however that ended."""
    while os.getppid() == parent:
        time.sleep(WATCHED)
    os._exit(1)
