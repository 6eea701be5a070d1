"""A process's memory: keeping that of a step for the next one, and the most that was ever held."""

from __future__ import annotations

import ctypes
import resource
import sys
from pathlib import Path

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


def peak_memory() -> int:
    """The most bytes this program has held so far.

    Linux counts in `ru_maxrss` also what the process held before it became this program: a program started from a large
    one would report the large one's memory. `VmHWM` begins anew with the program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
