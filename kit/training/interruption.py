"""Ctrl-C, and a scheduler's SIGTERM: the step is finished, a checkpoint is saved, and the training ends."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class GivenUp(BaseException):
    """What is being done is not worth finishing, because this process was asked to stop; nobody else catches it."""


class Interruption:
    """Listens for signals while a training runs; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}
        self._gives_up = False
        self._releasing = threading.Lock()

    def listen(self) -> None:
        """Take over from whoever listened before; only the main thread can."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}

    def release(self) -> None:
        """Give back to those who listened before."""
        with self._releasing:
            before, self._before = self._before, {}
            for number, handler in before.items():
                signal.signal(number, handler)

    def asked(self) -> bool:
        """Whether this process was asked to stop."""
        return self.received is not None

    def tell(self) -> None:
        """Another process was asked; said by the thread that watches the others, and heard where a signal would be."""
        with self._releasing:
            if self._before and self.received is None:
                # To that very thread: a signal to any other would not wake it from whatever it waits for.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    @contextmanager
    def giving_up(self) -> Iterator[None]:
        """What is inside ends with GivenUp as soon as this process is asked to stop, or was before."""
        self._gives_up = True
        try:
            if self.asked():
                raise GivenUp
            yield
        finally:
            self._gives_up = False

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.received is signal.SIGINT and number == signal.SIGINT:
            self.release()
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
        if self._gives_up:
            self._gives_up = False
            raise GivenUp
