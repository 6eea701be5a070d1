"""Schedules that break one law each."""

from __future__ import annotations

from typing import Literal

from kit import Options, Schedule


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenSchedule(Schedule):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def factor(self, step: int, steps: int) -> float:
        return 1 / (1 + step)


class FallsBelowNothing(BrokenSchedule):
    breaks = ("schedule.finite_factor",)

    def factor(self, step: int, steps: int) -> float:
        return 1 - step / steps


class CountsItsCalls(BrokenSchedule):
    breaks = ("schedule.stateless",)
    calls = 0

    def factor(self, step: int, steps: int) -> float:
        self.calls += 1
        return 1 / self.calls
