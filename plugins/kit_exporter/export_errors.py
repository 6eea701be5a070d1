"""Export errors: the part in whose code torch specialised a size or raised, and packages that are missing."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import sys
import traceback
from importlib import import_module
from types import TracebackType
from typing import Any

from kit import KitError, Part, Problem

_LOGGER = logging.getLogger("torch.fx.experimental.symbolic_shapes")
_NOISY = ("torch.export", "torch._export", "torch.onnx", "onnxscript", "onnx_ir", "torch.fx.experimental.proxy_tensor")
_GUARD = re.compile(r"^eval (?:\[guard suppressed\] )?(?P<what>.*?) \[guard added\] \((?P<where>[^)]*)\)")
_HARMLESS = re.compile(r"(?:Eq\(\w+, (?:s\d+|1)\)(?: \| )?)+")
"""Guards that two inputs have one size, or that one is broadcast."""


class GuardListener(logging.Handler):
    """Records the first guard on a size that torch adds while it traces, and the part whose code caused it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.found: tuple[Part, str] | None = None
        """The part whose code depends on a size, and the guard."""

    def __enter__(self) -> GuardListener:
        self._before = _LOGGER.level, _LOGGER.propagate, _LOGGER.handlers
        _LOGGER.handlers, _LOGGER.propagate = [self], False
        _LOGGER.setLevel(logging.INFO)
        # Torch prints graphs that it cannot export, which does not help users.
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
        """Looks for the part in the call stack, which is that of the code that caused the guard."""
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
    """Returns the innermost part in the traceback of an error."""
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
    """Returns a problem at the slot of a part, or at the model if the part is unknown."""
    if part is None:
        return Problem(message, ("model",))
    return part.build_context.problem(f"the {part.kind} {part.name()} {message}")


def import_or_raise(package: str) -> Any:
    """Imports a package; raises KitError with the command that installs it."""
    try:
        return import_module(package)
    except ImportError as error:
        hint = "pip install 'kitformer[export]'"
        raise KitError(f"exporting needs {package}, which is missing: {hint}") from error
