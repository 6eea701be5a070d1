"""Warm-up, a long stable stretch, and a short decay at the end (Hu et al. 2024), so that training can be prolonged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from kit import Options, Schedule, share_done, warmed_up


class WsdOptions(Options):
    """For trainings whose length may change: a checkpoint before the decay serves a longer one too."""

    use: Literal["wsd"] = "wsd"
    warmup: NonNegativeInt = 0
    """Steps in which the rate grows evenly to its full size."""
    decay: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """The share of all steps, at the end, in which the rate falls."""
    shape: Literal["linear", "sqrt"] = "linear"
    """How it falls: evenly, or as 1 - sqrt of the share done, quickly at first (Hägele et al. 2024)."""
    floor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """The share of the rate that is left at the end, and past it."""


class WsdSchedule(Schedule):
    """A trapezium."""

    options_type = WsdOptions
    options: WsdOptions

    def factor(self, step: int, steps: int) -> float:
        """1 between the warm-up and the decay, the floor at the end of the training."""
        done = share_done(step, self._decay_start(steps), steps)
        if self.options.shape == "sqrt":
            done = done**0.5
        return warmed_up(step, self.options.warmup) * (1 - (1 - self.options.floor) * done)

    def objections(self, steps: int) -> Iterator[str]:
        """A warm-up that reaches into the decay."""
        if self.options.warmup > self._decay_start(steps):
            yield (
                f"the warm-up takes {self.options.warmup} of {steps} steps and the decay begins at "
                f"step {self._decay_start(steps)}; the rate would never be full"
            )

    def _decay_start(self, steps: int) -> int:
        return steps - max(1, round(self.options.decay * steps))
