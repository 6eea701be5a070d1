"""Weight maps: checkpoints of other libraries, loaded into models of the kit by rules in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """None yet: a weight map is read from a file by `kit_exchange.weight_map`."""
    return []
