"""A linear warm-up, then a rate that falls with the root of the step (Vaswani et al. 2017, known as Noam)."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from kit import Options, Schedule


class InverseSqrtOptions(Options):
    """Does not depend on how long the training is."""

    use: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: PositiveInt = 4000
    """Steps in which the rate grows evenly to its largest."""
    width: PositiveInt | None = None
    """The model's width, for the paper's own formula: width**-0.5 * min(n**-0.5, n * warmup**-1.5) for update n, with
    an optimizer rate of 1.0. Left out, the largest factor is 1 and the optimizer's rate is the largest rate."""


class InverseSqrtSchedule(Schedule):
    """Noam's schedule."""

    options_type = InverseSqrtOptions
    options: InverseSqrtOptions

    def factor(self, step: int, steps: int) -> float:
        """Largest at the last update of the warm-up; updates are counted from 1, as in the paper."""
        update, warmup = step + 1, self.options.warmup
        shape = float(min(update / warmup, (warmup / update) ** 0.5))
        return shape if self.options.width is None else shape * float((self.options.width * warmup) ** -0.5)
