"""Positional encodings, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_position.learned import LearnedPosition
    from kit_position.none import NoPosition
    from kit_position.sinusoidal import SinusoidalPosition

    return [LearnedPosition, NoPosition, SinusoidalPosition]
