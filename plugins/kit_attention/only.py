"""Refusals at the last moment: what a recipe's checks should have stopped must never run with a mask left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit import KitError, Problem, Scope, Site


def looks_back(scope: Scope, name: str) -> bool:
    """Whether the future is hidden; an error for any other mask, which this attention could only ignore."""
    if scope.mask is None:
        return False
    if scope.mask.shape != "causal":
        raise KitError(
            f"{name} attention honours no mask but causal, and was given {type(scope.mask).__name__}; "
            "leave the mask out or choose another attention, such as softmax"
        )
    return True


def refuse_masks(scope: Scope, name: str) -> None:
    """An error for any mask: this attention mixes the whole text, so a mask could only be ignored."""
    if scope.mask is not None:
        raise KitError(
            f"{name} attention mixes the whole text and honours no mask, and was given {type(scope.mask).__name__}; "
            "it would show what the mask hides. Leave the mask out or choose another attention, such as softmax"
        )


def refuse_dropout(options: Any, site: Site, name: str) -> Iterator[Problem]:
    """Weights that are never made cannot be dropped."""
    if options.dropout > 0:
        yield site.problem(
            f"{name} attention never makes the weights that dropout {options.dropout} would drop",
            "dropout",
            hint="leave dropout out here; the model's own dropout still works",
        )
