"""Which examples are in the batch of a step: a function of the seed and the step alone, so that a run resumes exactly.

Examples of like lengths are gathered in buckets once; an epoch shuffles within buckets, then the batches cut from
them. The number of batches is the same in every epoch, so a step's epoch is a division away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kit.data.buckets import Bucket, gather
from kit.data.errors import DataError


class Sampler(Protocol):
    """Says which examples are in the global batch of a step."""

    @property
    def batches_per_epoch(self) -> int:
        """How many batches go through the data once."""
        ...

    def batch_at(self, step: int) -> list[int]:
        """The indices of the global batch of a step, counted from 0; any step may be asked for, in any order."""
        ...

    def predicted_at(self, step: int) -> int:
        """How many tokens the global batch of a step predicts."""
        ...


@dataclass(frozen=True)
class Budget:
    """How batches are made."""

    tokens: int
    """The most places a batch may have, padding counted: rows × (longest source + longest target)."""
    seed: int = 0
    """What the order depends on, with the step."""
    shuffle: bool = True
    """False for evaluation: the same batches every time, sorted by length for the least padding."""
    longest: int | None = None
    """Examples that have more ids than this on a side are left out; None takes all."""
    batches: int = 4
    """Batches a bucket holds at least, where there are so many: more mixes better, fewer pad less."""


class BucketSampler:
    """Batches within a token budget, of examples of like lengths.

    lengths: [examples, sides], with the tokens that are added at the ends. predicted: [examples], tokens each predicts.
    """

    def __init__(self, lengths: NDArray[np.int64], predicted: NDArray[np.int64], budget: Budget) -> None:
        self.budget = budget
        self._lengths = lengths
        self._predicted = predicted
        kept = np.flatnonzero((lengths <= (budget.longest or np.iinfo(np.int64).max)).all(axis=1))
        self.left_out = len(lengths) - len(kept)
        """How many examples are longer than the budget's `longest`."""
        if not len(kept):
            found = (
                "there are no examples" if not len(lengths) else f"all {len(lengths)} are longer than {budget.longest}"
            )
            raise DataError(f"nothing to make batches of: {found}")
        costs = lengths[kept].sum(axis=1)
        if costs.max() > budget.tokens:
            worst = int(kept[costs.argmax()])
            raise DataError(
                f"example {worst + 1} has {costs.max()} tokens, and a batch may have {budget.tokens}",
                hint=f"allow more tokens in a batch (at least {costs.max()}), or set the longest text that is taken",
            )
        self.buckets: list[Bucket] = gather(
            lengths, kept, budget.tokens, budget.batches if budget.shuffle else 1, ordered=not budget.shuffle
        )
        self._first = np.cumsum([0, *(bucket.batches for bucket in self.buckets)])
        self._epoch = -1
        self._order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._shuffled: dict[int, NDArray[np.int64]] = {}

    @property
    def batches_per_epoch(self) -> int:
        """How many batches go through the data once."""
        return int(self._first[-1])

    def batch_at(self, step: int) -> list[int]:
        """The indices of the global batch of a step, counted from 0."""
        epoch, place = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._shuffled = epoch, {}
            self._order = self._mixed(np.arange(self.batches_per_epoch), epoch)
        batch = int(self._order[place])
        number = int(np.searchsorted(self._first, batch, side="right")) - 1
        bucket = self.buckets[number]
        if number not in self._shuffled:
            self._shuffled[number] = self._mixed(bucket.members, epoch, number)
        start, stop = bucket.bounds(batch - int(self._first[number]))
        return [int(index) for index in self._shuffled[number][start:stop]]

    def predicted_at(self, step: int) -> int:
        """How many tokens the global batch of a step predicts."""
        return int(self._predicted[self.batch_at(step)].sum())

    def padding_share(self, epoch: int = 0) -> float:
        """Which share of all places in an epoch's batches is padding, on one process."""
        places = real = 0
        for step in range(epoch * self.batches_per_epoch, (epoch + 1) * self.batches_per_epoch):
            lengths = self._lengths[self.batch_at(step)]
            places += int(lengths.max(axis=0).sum()) * len(lengths)
            real += int(lengths.sum())
        return 1 - real / places

    def _mixed(self, values: NDArray[np.int64], *stream: int) -> NDArray[np.int64]:
        if not self.budget.shuffle:
            return values
        return np.random.default_rng([self.budget.seed, *stream]).permutation(values)
