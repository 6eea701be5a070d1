"""Linear warmup, then linear decay to a floor (as BERT was trained: Devlin et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from kit import Options, Schedule, progress_between, warmup_factor


class WarmupLinearOptions(Options):
    """Options of linear decay."""

    use: Literal["warmup_linear"] = "warmup_linear"
    warmup: NonNegativeInt = 0
    """Warmup steps, in which the learning rate grows linearly to its maximum."""
    floor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """The final learning rate, as a fraction of the maximum."""


class WarmupLinearSchedule(Schedule):
    """Linear warmup and linear decay."""

    options_type = WarmupLinearOptions
    options: WarmupLinearOptions

    def factor(self, step: int, steps: int) -> float:
        """1 at the end of the warmup, the floor at the end of the training."""
        done = progress_between(step, self.options.warmup, steps)
        if done == 0.0:
            return warmup_factor(step, self.options.warmup)
        return 1 - (1 - self.options.floor) * done

    def objections(self, steps: int) -> Iterator[str]:
        """A warmup that leaves no steps for the decay."""
        if self.options.warmup >= steps:
            yield f"the warm-up takes {self.options.warmup} of {steps} steps; the rate would never fall"
