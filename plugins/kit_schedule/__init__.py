"""Schedules of the learning rate, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """The parts, imported when they are asked for."""
    from kit_schedule.constant import ConstantSchedule
    from kit_schedule.inverse_sqrt import InverseSqrtSchedule
    from kit_schedule.warmup_cosine import WarmupCosineSchedule
    from kit_schedule.warmup_linear import WarmupLinearSchedule
    from kit_schedule.wsd import WsdSchedule

    return [ConstantSchedule, InverseSqrtSchedule, WarmupCosineSchedule, WarmupLinearSchedule, WsdSchedule]
