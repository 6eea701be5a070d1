"""The contract of a learning rate schedule: a pure function of the step, so that resuming is exact."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from kit.plugin.component import Component, Options


class Schedule(Component, ABC):
    """The factor of the learning rate at each step; built with its options alone."""

    kind = "schedule"

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def factor(self, step: int, steps: int) -> float:
        """The factor of one optimizer step.

        step: the number of previous steps, 0 for the first, `steps - 1` for the last; larger values are allowed.
        steps: the total number of steps.
        """

    def objections(self, steps: int) -> Iterator[str]:
        """Problems of training for this number of steps, such as a warmup that never ends."""
        yield from ()

    def over(self, steps: int) -> Callable[[int], float]:
        """The factor as a function of the step, for torch's `LambdaLR`."""

        def factor(step: int) -> float:
            return self.factor(step, steps)

        return factor


def warmup_factor(step: int, warmup: int) -> float:
    """The factor of a linear warmup: 1/warmup at the first step, 1 at the last warmup step and after it."""
    return min(1.0, (step + 1) / warmup) if warmup else 1.0


def progress_between(step: int, start: int, end: int) -> float:
    """The progress from `start` to `end` at a step: 0 until `start`, 1 from `end` on."""
    if step >= end:
        return 1.0
    return max(0.0, (step - start) / (end - start)) if end > start else 0.0
