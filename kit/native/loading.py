"""Loads a library of operations, which the first process on a machine compiles."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from kit.native.building import NotBuilt, build, compiler


class NotNativeWarning(UserWarning):
    """A CPU is slower than it could be here."""


_told: set[str] = set()
"""Several libraries fail for one reason, which is told once."""


class Library:
    """The operations of one C++ file beside this one."""

    def __init__(self, name: str, operations: Mapping[str, Callable[..., Any] | None], needs: str = "") -> None:
        self.name = name
        self.needs = needs
        """What torch has to call the processor, where others have not been measured."""
        self.operations = operations
        """By name: what shapes they give, for compilers of graphs; None for those that no graph holds."""
        self.loaded = False
        self.file: Path | None = None
        """What it was loaded from, by this process."""
        self._tried = False
        self._loading = Lock()
        """Threads may begin at the same time, and operations are defined once a process."""

    def load(self) -> bool:
        """Have the operations ready from now on; whether they are."""
        with self._loading:
            if not self._tried:
                self._tried = True
                self.loaded = self._load()
        return self.loaded

    def _load(self) -> bool:
        if os.environ.get("KIT_NATIVE") == "0" or compiler() is None:
            return False
        if self.needs not in ("", torch.backends.cpu.get_cpu_capability()):
            return False
        try:
            if not hasattr(torch.ops.kit, next(iter(self.operations))):  # to define it twice ends the process
                self.file = self._read()
        except (NotBuilt, OSError) as error:
            self.file = None
            if str(error) not in _told:
                warnings.warn(f"slower than it could be: {error}", NotNativeWarning, stacklevel=4)
            _told.add(str(error))
            return False
        for operation, shapes in self.operations.items():
            if shapes is not None:
                torch.library.register_fake(f"kit::{operation}", shapes)
        return True

    def _read(self) -> Path:
        """The file that was loaded; one that cannot be, such as half of one, is made anew once."""
        source = Path(__file__).with_name(f"{self.name}.cpp")
        file = build(source)
        try:
            torch.ops.load_library(file)
        except OSError:
            file.unlink()
            torch.ops.load_library(build(source))
        return file
