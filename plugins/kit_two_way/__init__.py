"""A bidirectional language model: the stack that never sees the token it predicts, and the objective that trains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_two_way.objective import TwoWayObjective
    from kit_two_way.stack import TwoWayStack

    return [TwoWayObjective, TwoWayStack]
