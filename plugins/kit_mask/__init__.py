"""Masks, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_mask.all import AllMask
    from kit_mask.any import AnyMask
    from kit_mask.causal import CausalMask
    from kit_mask.not_ import NotMask

    return [AllMask, AnyMask, CausalMask, NotMask]
