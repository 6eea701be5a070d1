"""Warmup-stable-decay (WSD, Hu et al. 2024): a constant rate with a short decay, so that training can be prolonged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt

from kit import Options, Schedule, progress_between, warmup_factor


class WsdOptions(Options):
    """Options of WSD: a checkpoint before the decay can be resumed into a longer training."""

    use: Literal["wsd"] = "wsd"
    warmup: NonNegativeInt = 0
    """Warmup steps, in which the learning rate grows linearly to its maximum."""
    decay: Annotated[float, Field(gt=0.0, le=1.0)] = 0.1
    """The fraction of all steps, at the end, in which the rate decays."""
    shape: Literal["linear", "sqrt"] = "linear"
    """The decay: linear, or 1 - sqrt of its progress, fast at first (Hägele et al. 2024)."""
    floor: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """The final learning rate, as a fraction of the maximum."""


class WsdSchedule(Schedule):
    """Linear warmup, a constant rate, and a decay at the end."""

    options_type = WsdOptions
    options: WsdOptions

    def factor(self, step: int, steps: int) -> float:
        """1 between the warmup and the decay, the floor at the end of the training."""
        done = progress_between(step, self._decay_start(steps), steps)
        if self.options.shape == "sqrt":
            done = done**0.5
        return warmup_factor(step, self.options.warmup) * (1 - (1 - self.options.floor) * done)

    def objections(self, steps: int) -> Iterator[str]:
        """A warmup that reaches into the decay."""
        if self.options.warmup > self._decay_start(steps):
            yield (
                f"the warm-up takes {self.options.warmup} of {steps} steps and the decay begins at "
                f"step {self._decay_start(steps)}; the rate would never be full"
            )

    def _decay_start(self, steps: int) -> int:
        return steps - max(1, round(self.options.decay * steps))
