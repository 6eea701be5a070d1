"""What tests of compiled steps share."""

from __future__ import annotations

import shutil

import pytest

from kit import Model

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="there is no C++ compiler here"
)


def count_steps(model: Model) -> int:
    """How many kinds of step were compiled."""
    return sum(map(len, model.decode_step.steps.values()))  # type: ignore[attr-defined]


def alike(one: list[list[tuple[list[int], float]]], other: list[list[tuple[list[int], float]]]) -> bool:
    pairs = [pair for left, right in zip(one, other, strict=True) for pair in zip(left, right, strict=True)]
    return all(a[0] == b[0] and a[1] == pytest.approx(b[1], abs=1e-4) for a, b in pairs)
