"""The same rate throughout, after a warm-up if one is wanted."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from kit import Options, Schedule, warmed_up


class ConstantOptions(Options):
    """No schedule."""

    use: Literal["constant"] = "constant"
    warmup: NonNegativeInt = 0
    """Steps in which the rate grows evenly to its full size."""


class ConstantSchedule(Schedule):
    """A factor of 1."""

    options_type = ConstantOptions
    options: ConstantOptions
    default = True

    def factor(self, step: int, steps: int) -> float:
        """1, from the end of the warm-up on."""
        return warmed_up(step, self.options.warmup)
