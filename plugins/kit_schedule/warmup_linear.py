"""A linear warm-up, then a straight line down to a floor (as BERT was trained: Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from kit import Options, Schedule, share_done, warmed_up


class WarmupLinearOptions(Options):
    """A triangle."""

    use: Literal["warmup_linear"] = "warmup_linear"
    warmup: NonNegativeInt = 0
    """Steps in which the rate grows evenly to its full size."""
    floor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """The share of the rate that is left at the end, and past it."""


class WarmupLinearSchedule(Schedule):
    """Up a line, down a line."""

    options_type = WarmupLinearOptions
    options: WarmupLinearOptions

    def factor(self, step: int, steps: int) -> float:
        """1 at the end of the warm-up, the floor at the end of the training."""
        done = share_done(step, self.options.warmup, steps)
        if done == 0.0:
            return warmed_up(step, self.options.warmup)
        return 1 - (1 - self.options.floor) * done

    def objections(self, steps: int) -> Iterator[str]:
        """A warm-up that leaves nothing to fall in."""
        if self.options.warmup >= steps:
            yield f"the warm-up takes {self.options.warmup} of {steps} steps; the rate would never fall"
