"""Bidirectional language model (ELMo): a stack that never sees the token that it predicts, and its objective."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts of this plugin, imported on first use."""
    from kit_two_way.objective import TwoWayObjective
    from kit_two_way.stack import TwoWayStack

    return [TwoWayObjective, TwoWayStack]
