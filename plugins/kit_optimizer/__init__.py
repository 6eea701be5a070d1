"""Optimizers, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_optimizer.adafactor import AdafactorOptimizer
    from kit_optimizer.adam import AdamOptimizer
    from kit_optimizer.adamw import AdamWOptimizer
    from kit_optimizer.lion import LionOptimizer
    from kit_optimizer.muon import MuonOptimizer
    from kit_optimizer.sgd import SgdOptimizer

    return [AdamWOptimizer, AdamOptimizer, AdafactorOptimizer, LionOptimizer, MuonOptimizer, SgdOptimizer]
