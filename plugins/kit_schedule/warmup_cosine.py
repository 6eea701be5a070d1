"""Linear warmup, then cosine decay to a floor (Loshchilov & Hutter 2017, without restarts)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from kit import Options, Schedule, progress_between, warmup_factor


class WarmupCosineOptions(Options):
    """Options of cosine decay, the usual choice where the number of steps is known."""

    use: Literal["warmup_cosine"] = "warmup_cosine"
    warmup: NonNegativeInt = 0
    """Warmup steps, in which the learning rate grows linearly to its maximum."""
    floor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """The final learning rate, as a fraction of the maximum."""


class WarmupCosineSchedule(Schedule):
    """Linear warmup and cosine decay."""

    options_type = WarmupCosineOptions
    options: WarmupCosineOptions

    def factor(self, step: int, steps: int) -> float:
        """1 at the end of the warmup, the floor at the end of the training."""
        done = progress_between(step, self.options.warmup, steps)
        if done == 0.0:
            return warmup_factor(step, self.options.warmup)
        return self.options.floor + (1 - self.options.floor) * 0.5 * (1 + math.cos(math.pi * done))

    def objections(self, steps: int) -> Iterator[str]:
        """A warmup that leaves no steps for the decay."""
        if self.options.warmup >= steps:
            yield f"the warm-up takes {self.options.warmup} of {steps} steps; the rate would never fall"
