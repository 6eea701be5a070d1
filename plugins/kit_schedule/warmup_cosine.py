"""A linear warm-up, then half a cosine down to a floor (Loshchilov & Hutter 2017, without restarts)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from kit import Options, Schedule, share_done, warmed_up


class WarmupCosineOptions(Options):
    """The usual choice where the length of the training is known."""

    use: Literal["warmup_cosine"] = "warmup_cosine"
    warmup: NonNegativeInt = 0
    """Steps in which the rate grows evenly to its full size."""
    floor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """The share of the rate that is left at the end, and past it."""


class WarmupCosineSchedule(Schedule):
    """Up a line, down a cosine."""

    options_type = WarmupCosineOptions
    options: WarmupCosineOptions

    def factor(self, step: int, steps: int) -> float:
        """1 at the end of the warm-up, the floor at the end of the training."""
        done = share_done(step, self.options.warmup, steps)
        if done == 0.0:
            return warmed_up(step, self.options.warmup)
        return self.options.floor + (1 - self.options.floor) * 0.5 * (1 + math.cos(math.pi * done))

    def objections(self, steps: int) -> Iterator[str]:
        """A warm-up that leaves nothing to fall in."""
        if self.options.warmup >= steps:
            yield f"the warm-up takes {self.options.warmup} of {steps} steps; the rate would never fall"
