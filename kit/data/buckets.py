"""Gathering examples of like lengths: a set is halved along the side that pads most, while halves hold enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Bucket:
    """Examples of like lengths, cut into batches that differ by at most one row."""

    members: NDArray[np.int64]
    """Indices of the examples."""
    batches: int
    """How many batches they make."""

    def bounds(self, batch: int) -> tuple[int, int]:
        """Where a batch of this bucket starts and stops among its (shuffled) members."""
        count = len(self.members)
        return batch * count // self.batches, (batch + 1) * count // self.batches


def gather(
    lengths: NDArray[np.int64], kept: NDArray[np.int64], tokens: int, batches: int, *, ordered: bool
) -> list[Bucket]:
    """Buckets of at least `batches` batches; whichever members of one make a batch, it keeps to `tokens` places.

    ordered: the members stand in the order of their lengths, for cutting without shuffling.
    """
    waiting, buckets = [kept], []
    while waiting:
        members = waiting.pop()
        halves = _halves(lengths, members, tokens, batches)
        if halves is not None:
            waiting.extend(reversed(halves))  # the shorter half first: buckets go up in length
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
    """The shorter and the longer, split along the side with most padding; None where a half would have too few."""
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
