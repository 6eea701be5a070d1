"""Constraint: restrictions on generated sequences, for any search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """Returns the constraints, imported on demand."""
    from kit_constraint.allowed import AllowedConstraint
    from kit_constraint.ending import EndingConstraint
    from kit_constraint.forbidden import ForbiddenConstraint
    from kit_constraint.length import LengthConstraint
    from kit_constraint.ngrams import NgramsConstraint
    from kit_constraint.prefix import PrefixConstraint
    from kit_constraint.repetition import RepetitionConstraint
    from kit_constraint.required import RequiredConstraint

    return [
        AllowedConstraint,
        EndingConstraint,
        ForbiddenConstraint,
        LengthConstraint,
        NgramsConstraint,
        PrefixConstraint,
        RepetitionConstraint,
        RequiredConstraint,
    ]
