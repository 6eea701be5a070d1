"""Which part stands in the way of an export: the one at work when torch fixed a length or something failed."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import traceback
from types import TracebackType

from kit import Part, Problem

_LOGGER = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_NOISY = ("torch.export", "torch._export", "torch.onnx", "onnxscript", "onnx_ir", "torch.fx.experimental.proxy_tensor")
_GUARD = re.compile(r"^eval (?:\[guard suppressed\] )?(?P<what>.*?) \[guard added\] \((?P<where>[^)]*)\)")
_HARMLESS = re.compile(r"(?:Eq\(\w+, (?:s\d+|1)\)(?: \| )?)+")
"""That two inputs are of one size, or that one is repeated."""


class Guards(logging.Handler):
    """Listens to what torch takes for granted about sizes while it traces, and who made it do so."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: tuple[Part, str] | None = None
        """The first part that decides by a size, and how."""

    def __enter__(self) -> Guards:
        self._before = _LOGGER.level, _LOGGER.propagate, _LOGGER.handlers
        _LOGGER.handlers, _LOGGER.propagate = [self], False
        _LOGGER.setLevel(logging.INFO)
        # What torch prints of a graph that it gives up on helps nobody but its authors.
        self._silence = contextlib.ExitStack()
        for redirect in (contextlib.redirect_stdout, contextlib.redirect_stderr):
            self._silence.enter_context(redirect(io.StringIO()))
        self._silent = {name: logging.getLogger(name).level for name in _NOISY}
        for name in _NOISY:
            logging.getLogger(name).setLevel(logging.CRITICAL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        level, _LOGGER.propagate, _LOGGER.handlers = self._before
        _LOGGER.setLevel(level)
        self._silence.close()
        for name, before in self._silent.items():
            logging.getLogger(name).setLevel(before)

    def emit(self, record: logging.LogRecord) -> None:
        """Called within the very code that made torch decide."""
        guard = _GUARD.match(record.getMessage())
        if guard is None or self.found is not None or _HARMLESS.fullmatch(guard["what"]):
            return
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
            here = frame.f_locals.get("self")
            if isinstance(here, Part):
                self.found = here, f"it decides by a size ({guard['what']}, in {guard['where']})"
                return


def part_in(error: BaseException) -> Part | None:
    """The innermost part at work where an error was raised."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    for each in reversed(causes):
        found: Part | None = None
        for frame, _ in traceback.walk_tb(each.__traceback__):
            here = frame.f_locals.get("self")
            found = here if isinstance(here, Part) else found
        if found is not None:
            return found
    return None


def problem_at(part: Part | None, message: str) -> Problem:
    """A problem at the slot that a part fills; at the model where none is known."""
    if part is None:
        return Problem(message, ("model",))
    return part.site.problem(f"the {part.kind} {part.part_name()} {message}")
