"""The contract of a schedule: a pure function of the step, so that a resumed run has the rates it would have had."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from kit.component import Component, Options


class Schedule(Component, ABC):
    """Says what the optimizer's rate is multiplied by at each step; built with its options alone."""

    kind = "schedule"

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """The factor for one update.

        step: how many updates were made before it: 0 for the first, `steps - 1` for the last; it may go past that.
        steps: how many updates the whole training has.
        """

    def objections(self, steps: int) -> Iterator[str]:
        """What stands against training for this many updates, such as a warm-up that would never end."""
        yield from ()

    def over(self, steps: int) -> Callable[[int], float]:
        """The factor as a function of the step alone, as torch's `LambdaLR` takes it."""

        def factor(step: int) -> float:
            return self.factor(step, steps)

        return factor


def warmed_up(step: int, warmup: int) -> float:
    """The factor of a linear warm-up: 1/warmup at the first update, 1 at the last of the warm-up and after it."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def share_done(step: int, start: int, end: int) -> float:
    """How much of the stretch from `start` to `end` lies behind at a step: 0 until `start`, 1 from `end` on."""
    if step >= end:
        return 1.0
    return max(0.0, (step - start) / (end - start)) if end > start else 0.0
