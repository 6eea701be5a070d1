"""Linear warmup, then inverse square root decay (Vaswani et al. 2017, known as Noam)."""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt

from kit import Options, Schedule


class InverseSqrtOptions(Options):
    """Options of inverse square root decay, which does not depend on the number of steps."""

    use: Literal["inverse_sqrt"] = "inverse_sqrt"
    warmup: PositiveInt = 4000
    """Warmup steps, in which the learning rate grows linearly to its maximum."""
    width: PositiveInt | None = None
    """The model's width, for the paper's own formula: width**-0.5 * min(n**-0.5, n * warmup**-1.5) for update n, with
    an optimizer rate of 1.0. Left out, the largest factor is 1 and the optimizer's rate is the largest rate."""


class InverseSqrtSchedule(Schedule):
    """The Noam schedule."""

    options_type = InverseSqrtOptions
    options: InverseSqrtOptions

    def factor(self, step: int, steps: int) -> float:
        """The maximum is at the last update of the warmup; updates are counted from 1, as in the paper."""
        update, warmup = step + 1, self.options.warmup
        shape = float(min(update / warmup, (warmup / update) ** 0.5))
        return shape if self.options.width is None else shape * float((self.options.width * warmup) ** -0.5)
