"""Sharing out the global batch of each step among processes and accumulated pieces."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch.utils.data

from kit.data.batching import Sampler


@dataclass(frozen=True)
class Share:
    """What one process computes at once: some rows of the global batch of a step."""

    step: int
    indices: tuple[int, ...]
    parts: int
    """How many shares this global batch is cut into."""
    rows: int
    """Rows of the global batch."""
    predicted: int
    """Tokens that the global batch predicts."""
    counted: bool = True
    """False where there were too few rows for this share: it then holds a row that another one has."""


def share_of(sampler: Sampler, step: int, part: int = 0, parts: int = 1) -> Share:
    """Every `parts`-th row of the global batch, from row `part` on: shares differ by at most one row."""
    batch = sampler.batch_at(step)
    own = batch[part::parts]
    return Share(step, tuple(own or batch[:1]), parts, len(batch), sampler.predicted_at(step), bool(own))


class StepBatches(torch.utils.data.Sampler[Share]):
    """The shares of one process, step by step: to be given to a DataLoader as `sampler`, with `batch_size=None`.

    The global batch of a step is the same for any number of processes (`world`) and of pieces it is accumulated in.
    """

    def __init__(
        self, sampler: Sampler, start: int, stop: int, *, rank: int = 0, world: int = 1, accumulate: int = 1
    ) -> None:
        self.sampler = sampler
        self.start = start
        self.stop = stop
        self.rank = rank
        self.world = world
        self.accumulate = accumulate

    def __len__(self) -> int:
        return max(0, self.stop - self.start) * self.accumulate

    def __iter__(self) -> Iterator[Share]:
        parts = self.world * self.accumulate
        for step in range(self.start, self.stop):
            for piece in range(self.accumulate):
                yield share_of(self.sampler, step, piece * self.world + self.rank, parts)
