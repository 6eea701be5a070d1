"""Ctrl-C, and a scheduler's SIGTERM: the step is finished, a checkpoint is saved, and the training ends."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Listens for signals while a training runs; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._before: dict[signal.Signals, Any] = {}

    def listen(self) -> None:
        """Take over from whoever listened before; only the main thread can."""
        if threading.current_thread() is threading.main_thread() and not self._before:
            self._before = {number: signal.signal(number, self._take) for number in _SIGNALS}

    def release(self) -> None:
        """Give back to those who listened before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def asked(self) -> bool:
        """Whether this process was asked to stop."""
        return self.received is not None

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None and number == signal.SIGINT:
            self.release()
            raise KeyboardInterrupt
        self.received = signal.Signals(number)
