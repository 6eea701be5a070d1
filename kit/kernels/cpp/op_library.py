"""Libraries of torch operations, compiled from a C++ file on first use, and the tensors that they support."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from kit.kernels.cpp.cpp_build import BuildError, build


class NotNativeWarning(UserWarning):
    """A C++ kernel could not be built or loaded, so that slower code is used."""


_warned: set[str] = set()
"""Reasons that were reported: several libraries may fail for the same one."""


class OpLibrary:
    """The operations of one C++ file beside this one."""

    def __init__(self, name: str, operations: Mapping[str, Callable[..., Any] | None], needs: str = "") -> None:
        self.name = name
        self.needs = needs
        """The CPU capability, as torch calls it, that the kernels were measured on; empty for any."""
        self.operations = operations
        """Names of the operations, with their fake (meta) implementations; None for those that are never traced."""
        self.loaded = False
        self.file: Path | None = None
        """The file that this process has loaded."""
        self._tried = False
        self._loading = Lock()
        """Guards loading: operations may be defined only once a process."""

    def load(self) -> bool:
        """Compiles if necessary and loads the operations, once; returns whether they are available."""
        with self._loading:
            if not self._tried:
                self._tried = True
                self.loaded = self._load()
        return self.loaded

    def _load(self) -> bool:
        if os.environ.get("KIT_NATIVE") == "0" or self.needs not in ("", torch.backends.cpu.get_cpu_capability()):
            return False
        try:
            if not hasattr(torch.ops.kit, next(iter(self.operations))):  # defining it twice would abort the process
                self.file = self._read()
        except (BuildError, OSError) as error:
            self.file = None
            if str(error) not in _warned:
                warnings.warn(f"slower than it could be: {error}", NotNativeWarning, stacklevel=4)
            _warned.add(str(error))
            return False
        for operation, shapes in self.operations.items():
            if shapes is not None:
                torch.library.register_fake(f"kit::{operation}", shapes)
        return True

    def _read(self) -> Path:
        """Loads the compiled file; one that cannot be loaded is removed, so that the next process compiles it anew."""
        file = build(Path(__file__).with_name(f"{self.name}.cpp"))
        try:
            torch.ops.load_library(file)
        except OSError as error:
            with suppress(OSError):
                file.unlink()
            reason = str(error.__cause__ or error).removeprefix(f"{file}: ")
            raise BuildError(f"what was compiled into {file.parent} cannot be loaded: {reason}") from error
        return file


def supports_native(x: Tensor) -> bool:
    """Whether x is a dense float32 CPU tensor, of no subclass and not under a torch.func transform."""
    plain = type(x) is Tensor and x.device.type == "cpu" and x.dtype == torch.float32
    return plain and not torch._C._are_functorch_transforms_active()
