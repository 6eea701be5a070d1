"""Assertions on tensors, which report the size and the index of the largest difference."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.laws.law import broken

EXACT = 1e-10
"""The relative tolerance in float64 for results that only differ in the order of summation."""


def close(found: Tensor, expected: Tensor, name: str, tolerance: float = EXACT) -> None:
    """Requires equality up to a tolerance relative to the largest expected value, or to 1 if that is less."""
    if found.shape != expected.shape:
        broken(f"{name}: the shape is {list(found.shape)}, wanted {list(expected.shape)}")
    if not found.numel():
        return
    finite(found, name)
    size = max(1.0, float(expected.detach().abs().max()))
    difference = (found.detach() - expected.detach()).abs()
    if float(difference.max()) > tolerance * size:
        index = _index(difference)
        broken(f"{name}: differs by {float(difference.max()):.3g} at {index}; allowed is {tolerance * size:.3g}")


def same(found: Tensor, expected: Tensor, name: str) -> None:
    """Requires equality bit for bit."""
    if found.shape != expected.shape:
        broken(f"{name}: the shape is {list(found.shape)}, wanted {list(expected.shape)}")
    if not torch.equal(found, expected):
        difference = (found.detach() - expected.detach()).abs().nan_to_num(nan=float("inf"))
        broken(f"{name}: differs by {float(difference.max()):.3g} at {_index(difference)}; wanted the same bits")


def finite(found: Tensor, name: str) -> None:
    """Requires finite values."""
    if not bool(found.isfinite().all()):
        broken(f"{name}: {int((~found.isfinite()).sum())} of {found.numel()} values are infinite or NaN")


def zero(found: Tensor, name: str) -> None:
    """Requires exact zeros."""
    if found.numel() and bool((found != 0).any()):
        broken(
            f"{name}: {float(found.detach().abs().max()):.3g} at {_index(found.detach().abs())}; wanted exactly zero"
        )


def _index(size: Tensor) -> list[int]:
    index = int(size.reshape(-1).argmax())
    return [int(each) for each in torch.unravel_index(torch.tensor(index), size.shape)]
