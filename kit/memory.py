"""Keeps the memory of a step for the next one, where the C library would give it back and ask for it anew."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""What glibc's `mallopt` calls them."""
_LARGEST = 2**30
"""Tensors up to this size are taken from memory that is kept."""


def keep_memory() -> bool:
    """Ask the C library to keep freed memory; whether it understood.

    A CPU step frees and asks for the same large tensors again and again. By default each of them is a mapping of its
    own, which the system clears page by page: a tenth of a small model's step.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # a C library without it, such as musl
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _LARGEST)) and bool(mallopt(_TRIM_THRESHOLD, 2**31 - 1))
