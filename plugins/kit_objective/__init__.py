"""Training objectives: causal, masked, prefix and sequence-to-sequence language modeling, and classification."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_objective.causal import CausalObjective
    from kit_objective.classes import ClassesObjective
    from kit_objective.masked import MaskedObjective
    from kit_objective.prefix import PrefixObjective
    from kit_objective.sequence import SequenceObjective

    return [CausalObjective, ClassesObjective, MaskedObjective, PrefixObjective, SequenceObjective]
