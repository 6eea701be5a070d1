"""Packages of parts that tests write into a folder and import from there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

COSTLY = frozenset({"fused_equals_eager", "padded_keys", "incremental_decoding", "padding_invariance"}) | frozenset(
    {"packed_equals_padded", "causality", "traced", "gradcheck"}
)
"""Laws that take seconds of a part that is slow to run; the catalogue tries them of every part."""


@contextmanager
def importable(folder: Path, name: str) -> Iterator[ModuleType]:
    """A module from a folder, which is forgotten afterwards."""
    before = set(sys.modules)
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module(name)
    finally:
        sys.path.remove(str(folder))
        for known in set(sys.modules) - before:
            if str(getattr(sys.modules[known], "__file__", "")).startswith(str(folder)):
                del sys.modules[known]
