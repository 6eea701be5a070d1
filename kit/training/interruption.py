"""Graceful interruption by Ctrl-C, SIGTERM or a closed terminal: the step is finished, a checkpoint saved, the end.

An evaluation may take long, so it is not finished: all ranks abandon it together, and the resumed run makes it again.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule

from kit.distributed.collectives import all_reduce_sum
from kit.distributed.fsdp import layers
from kit.distributed.launcher import leave_terminal, stop_signals


class Interrupted(BaseException):
    """Stop request inside `Interruption.interruptible`; not an Exception, so that no part catches it."""


class Interruption:
    """Handles signals while a training runs; a second Ctrl-C ends it at once."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous_handlers: dict[signal.Signals, Any] = {}
        self._raises = False
        self._releasing = threading.Lock()

    def listen(self) -> None:
        """Install the signal handlers; only the main thread can."""
        if threading.current_thread() is threading.main_thread() and not self._previous_handlers:
            self._previous_handlers = {number: signal.signal(number, self._handle) for number in stop_signals()}

    def release(self) -> None:
        """Reinstall the handlers that were there before."""
        with self._releasing:
            handlers, self._previous_handlers = self._previous_handlers, {}
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def is_requested(self) -> bool:
        """Whether this process was asked to stop."""
        return self.received is not None

    def request(self) -> None:
        """Ask this process to stop because another rank was asked; called by the watchdog's thread."""
        with self._releasing:
            if self._previous_handlers and self.received is None:
                # To that very thread: a signal to any other would not wake it from whatever it waits for.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise Interrupted inside as soon as this process is asked to stop, or if it was before."""
        self._raises = True
        try:
            if self.is_requested():
                raise Interrupted
            yield
        finally:
            self._raises = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is signal.SIGINT and number == signal.SIGINT:
            self.release()
            raise KeyboardInterrupt
        leave_terminal(number)
        self.received = signal.Signals(number)
        if self._raises:
            self._raises = False
            raise Interrupted


class EvaluationInterrupted(Exception):
    """A rank was asked to stop, and all ranks abandoned the evaluation at the same point."""


class InterruptibleEvaluation:
    """Ends an evaluation between its stages, and inside of a stage where no other rank waits for this one."""

    def __init__(self, interruption: Interruption, model: nn.Module) -> None:
        self.interruption = interruption
        self.model = model

    @contextmanager
    def stage(self, computes: bool) -> Iterator[None]:
        """One stage and an all-reduce of the stop requests after it; EvaluationInterrupted if any rank has one."""
        try:
            # The layers of a sharded model are collectives: a rank that left one would leave the others waiting.
            is_collective = computes and isinstance(self.model, FSDPModule)
            with self._check_at_last_layer() if is_collective else self.interruption.interruptible():
                yield
        except Interrupted:
            pass
        self._check()

    def _check(self, *ignored: Any) -> None:
        if all_reduce_sum([float(self.interruption.is_requested())])[0]:
            raise EvaluationInterrupted

    @contextmanager
    def _check_at_last_layer(self) -> Iterator[None]:
        """Check at each forward pass of the last layer: generating a sequence takes many passes."""
        handle = layers(self.model)[-1].register_forward_pre_hook(self._check)
        try:
            yield
        finally:
            handle.remove()
