"""The most memory a program held is its own, not that of the program which started it."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

HELD = 800_000_000


def _peak(before: str) -> int:
    code = f"import kit.kernels.allocator\n{before}\nprint(kit.kernels.allocator.peak_memory())"
    return int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def test_a_large_parent_is_not_counted() -> None:
    held = np.ones(HELD, dtype=np.uint8)
    assert _peak("") < HELD // 2
    assert held.all()


def test_what_was_held_and_given_back_is_counted() -> None:
    assert _peak(f"held = bytearray(b'x' * {HELD}); del held") > HELD
