"""A constant learning rate, after an optional linear warmup."""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeInt

from kit import Options, Schedule, warmup_factor


class ConstantOptions(Options):
    """Options of a constant learning rate."""

    use: Literal["constant"] = "constant"
    warmup: NonNegativeInt = 0
    """Warmup steps, in which the learning rate grows linearly to its maximum."""


class ConstantSchedule(Schedule):
    """A factor of 1, after the warmup."""

    options_type = ConstantOptions
    options: ConstantOptions
    default = True

    def factor(self, step: int, steps: int) -> float:
        """1 from the end of the warmup on."""
        return warmup_factor(step, self.options.warmup)
