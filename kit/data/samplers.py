"""Samplers: the examples of each global batch as a pure function of the step, and its shards.

Examples are bucketed by length: a bucket is split along the side with the most padding while both halves hold enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kit.data.paths import DataError


@dataclass(frozen=True)
class Bucket:
    """Examples of similar length, divided into batches that differ by at most one row."""

    members: NDArray[np.int64]
    """Indices of the examples."""
    batches: int
    """The number of batches."""

    def bounds(self, batch: int) -> tuple[int, int]:
        """The start and stop of a batch among the (shuffled) members."""
        count = len(self.members)
        return batch * count // self.batches, (batch + 1) * count // self.batches


def bucket_by_length(
    lengths: NDArray[np.int64], kept: NDArray[np.int64], tokens: int, batches: int, *, ordered: bool
) -> list[Bucket]:
    """Buckets of at least `batches` batches; any members of one make a batch of at most `tokens` tokens with padding.

    ordered: sort the members of each bucket by length, for batches without shuffling.
    """
    waiting, buckets = [kept], []
    while waiting:
        members = waiting.pop()
        halves = _halves(lengths, members, tokens, batches)
        if halves is not None:
            waiting.extend(reversed(halves))  # the shorter half first: buckets are in order of length
            continue
        if ordered:
            members = members[np.lexsort(lengths[members].T)]
        buckets.append(Bucket(members, -(-len(members) // _rows(lengths, members, tokens))))
    return buckets


def _rows(lengths: NDArray[np.int64], members: NDArray[np.int64], tokens: int) -> int:
    return max(1, tokens // max(1, int(lengths[members].max(axis=0).sum())))


def _halves(
    lengths: NDArray[np.int64], members: NDArray[np.int64], tokens: int, batches: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The shorter and the longer half, split along the side with the most padding; None if a half is too small."""
    here = lengths[members]
    for side in np.argsort(-(here.max(axis=0) - here.mean(axis=0)), kind="stable"):
        values = here[:, side]
        if values.min() == values.max():
            continue
        middle = min(int(np.median(values)), int(values.max()) - 1)
        short, long = members[values <= middle], members[values > middle]
        if all(len(half) >= batches * _rows(lengths, half, tokens) for half in (short, long)):
            return short, long
    return None


class Sampler(Protocol):
    """Selects the examples of the global batch of a step."""

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches of one epoch."""
        ...

    def batch_at(self, step: int) -> list[int]:
        """The indices of the global batch of a step, counted from 0; steps may be requested in any order."""
        ...

    def num_predictions_at(self, step: int) -> int:
        """The number of tokens that the global batch of a step predicts."""
        ...


@dataclass(frozen=True)
class BatchBudget:
    """The size and order of batches."""

    tokens: int
    """The maximum number of tokens of a batch with padding: rows × (longest source + longest target)."""
    seed: int = 0
    """The seed of the order."""
    shuffle: bool = True
    """False for evaluation: fixed batches, sorted by length for the least padding."""
    max_length: int | None = None
    """Examples with more ids than this on a side are skipped; None for no limit."""
    min_batches: int = 4
    """The minimum number of batches in a bucket: more shuffles better, fewer pads less."""


class BucketSampler:
    """Batches within a token budget, of examples of similar length.

    lengths: [examples, sides], including special tokens. predicted: [examples], the tokens that each predicts.
    """

    def __init__(self, lengths: NDArray[np.int64], predicted: NDArray[np.int64], budget: BatchBudget) -> None:
        self.budget = budget
        self._lengths = lengths
        self._predicted = predicted
        kept = np.flatnonzero((lengths <= (budget.max_length or np.iinfo(np.int64).max)).all(axis=1))
        self.left_out = len(lengths) - len(kept)
        """The number of skipped examples, longer than the budget's `max_length`."""
        if not len(kept):
            found = (
                "there are no examples"
                if not len(lengths)
                else f"all {len(lengths)} are longer than {budget.max_length}"
            )
            raise DataError(f"nothing to make batches of: {found}")
        costs = lengths[kept].sum(axis=1)
        if costs.max() > budget.tokens:
            worst = int(kept[costs.argmax()])
            raise DataError(
                f"example {worst + 1} has {costs.max()} tokens, and a batch may have {budget.tokens}",
                hint=f"allow more tokens in a batch (at least {costs.max()}), or set the longest one that is taken",
            )
        self.buckets: list[Bucket] = bucket_by_length(
            lengths, kept, budget.tokens, budget.min_batches if budget.shuffle else 1, ordered=not budget.shuffle
        )
        self._first = np.cumsum([0, *(bucket.batches for bucket in self.buckets)])
        self._epoch = -1
        self._order: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self._shuffled: dict[int, NDArray[np.int64]] = {}

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches of one epoch."""
        return int(self._first[-1])

    def batch_at(self, step: int) -> list[int]:
        """The indices of the global batch of a step, counted from 0."""
        epoch, number = divmod(step, self.batches_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._shuffled = epoch, {}
            self._order = self._permuted(np.arange(self.batches_per_epoch), epoch)
        batch = int(self._order[number])
        bucket_index = int(np.searchsorted(self._first, batch, side="right")) - 1
        bucket = self.buckets[bucket_index]
        if bucket_index not in self._shuffled:
            self._shuffled[bucket_index] = self._permuted(bucket.members, epoch, bucket_index)
        start, stop = bucket.bounds(batch - int(self._first[bucket_index]))
        return [int(index) for index in self._shuffled[bucket_index][start:stop]]

    def num_predictions_at(self, step: int) -> int:
        """The number of tokens that the global batch of a step predicts."""
        return int(self._predicted[self.batch_at(step)].sum())

    def padding_fraction(self, epoch: int = 0) -> float:
        """The fraction of padding among the tokens of an epoch's batches, on one process."""
        total = real = 0
        for step in range(epoch * self.batches_per_epoch, (epoch + 1) * self.batches_per_epoch):
            lengths = self._lengths[self.batch_at(step)]
            total += int(lengths.max(axis=0).sum()) * len(lengths)
            real += int(lengths.sum())
        return 1 - real / total

    def _permuted(self, values: NDArray[np.int64], *stream: int) -> NDArray[np.int64]:
        if not self.budget.shuffle:
            return values
        return np.random.default_rng([self.budget.seed, *stream]).permutation(values)


@dataclass(frozen=True)
class BatchShard:
    """A shard of the global batch of a step: the rows of one rank and accumulation step."""

    step: int
    indices: tuple[int, ...]
    num_shards: int
    """The number of shards of this global batch."""
    rows: int
    """The number of rows of the global batch."""
    predicted: int
    """The number of tokens that the global batch predicts."""
    counted: bool = True
    """False if the global batch has too few rows: this shard then repeats a row, and its loss has weight 0."""


def shard_of(sampler: Sampler, step: int, shard: int = 0, num_shards: int = 1) -> BatchShard:
    """Every `num_shards`-th row of the global batch from row `shard` on: shards differ by at most one row."""
    batch = sampler.batch_at(step)
    own = batch[shard::num_shards]
    return BatchShard(
        step, tuple(own or batch[:1]), num_shards, len(batch), sampler.num_predictions_at(step), bool(own)
    )
