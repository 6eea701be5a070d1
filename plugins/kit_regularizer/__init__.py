"""Regularizers of attention in training, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_regularizer.disagreement import DisagreementRegularizer
    from kit_regularizer.drop_heads import DropHeadsRegularizer
    from kit_regularizer.entropy import EntropyRegularizer
    from kit_regularizer.entropy_floor import EntropyFloorRegularizer
    from kit_regularizer.guided import GuidedRegularizer
    from kit_regularizer.l0 import L0Regularizer

    return [
        DisagreementRegularizer,
        DropHeadsRegularizer,
        EntropyRegularizer,
        EntropyFloorRegularizer,
        GuidedRegularizer,
        L0Regularizer,
    ]
