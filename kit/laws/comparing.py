"""Comparing what came out with what was wanted; a difference is told with its size and its place."""

from __future__ import annotations

import torch
from torch import Tensor

from kit.laws.law import broken

EXACT = 1e-10
"""How far results may lie apart, in float64, that differ in the order of summation only, as a share of their size."""


def close(found: Tensor, wanted: Tensor, what: str, tolerance: float = EXACT) -> None:
    """Equal up to a tolerance, which is a share of the largest number wanted, or of 1 where that is less."""
    if found.shape != wanted.shape:
        broken(f"{what}: the shape is {list(found.shape)}, wanted {list(wanted.shape)}")
    if not found.numel():
        return
    finite(found, what)
    size = max(1.0, float(wanted.detach().abs().max()))
    difference = (found.detach() - wanted.detach()).abs()
    if float(difference.max()) > tolerance * size:
        place = _place(difference)
        broken(f"{what}: differs by {float(difference.max()):.3g} at {place}; allowed is {tolerance * size:.3g}")


def same(found: Tensor, wanted: Tensor, what: str) -> None:
    """Equal bit for bit."""
    if found.shape != wanted.shape:
        broken(f"{what}: the shape is {list(found.shape)}, wanted {list(wanted.shape)}")
    if not torch.equal(found, wanted):
        difference = (found.detach() - wanted.detach()).abs().nan_to_num(nan=float("inf"))
        broken(f"{what}: differs by {float(difference.max()):.3g} at {_place(difference)}; wanted the same bits")


def finite(found: Tensor, what: str) -> None:
    """No infinity, nothing that is not a number."""
    if not bool(found.isfinite().all()):
        broken(f"{what}: {int((~found.isfinite()).sum())} of {found.numel()} numbers are infinite or not numbers")


def zero(found: Tensor, what: str) -> None:
    """Exactly zero."""
    if found.numel() and bool((found != 0).any()):
        broken(
            f"{what}: {float(found.detach().abs().max()):.3g} at {_place(found.detach().abs())}; wanted exactly zero"
        )


def _place(size: Tensor) -> list[int]:
    index = int(size.reshape(-1).argmax())
    return [int(step) for step in torch.unravel_index(torch.tensor(index), size.shape)]
