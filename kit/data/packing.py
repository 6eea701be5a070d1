"""Windows of fixed length over a stream of documents: plain, or with facts that keep documents apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kit.data.errors import DataError
from kit.data.rows import Rows, Sides, padded
from kit.data.store import TokenStore

Order = Literal["random", "shuffled", "consecutive"]
"""random: any offset, drawn each step; shuffled: blocks side by side, each once an epoch; consecutive: in order."""


class WindowRows(Rows):
    """Windows of the stream; the index of a window is the offset of its first token.

    A window has one token more than `length`, so that `length` tokens are predicted when an objective shifts it.
    """

    def __init__(self, store: TokenStore, length: int) -> None:
        if len(store.ids) < 2:
            raise DataError("no text to cut windows from: at least two tokens are wanted")
        self.store = store
        self.length = length

    def stop(self, offset: int) -> int:
        """Where the window that starts at an offset ends; short at the end of the stream."""
        return min(offset + self.length + 1, len(self.store.ids))

    def predicted(self, offset: int) -> int:
        """How many tokens a window predicts."""
        return self.stop(offset) - offset - 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """The windows at these offsets."""
        return padded([self._ids(offset) for offset in indices]), None, None

    def _ids(self, offset: int) -> NDArray[np.int64]:
        return np.asarray(self.store.ids[offset : self.stop(offset)], dtype=np.int64)


class PackedRows(WindowRows):
    """Windows in which documents are kept apart.

    The fact `document` numbers the documents of a window from 0, and `position` counts from 0 in each of them. A token
    is not predicted from the document before its own: an objective leaves out places where `document` changes.
    """

    def predicted(self, offset: int) -> int:
        """Tokens that have one of their own document before them."""
        first, last = self._documents(np.array([offset, self.stop(offset) - 1]))
        return super().predicted(offset) - int(last - first)

    def sides(self, indices: Sequence[int]) -> Sides:
        """The windows at these offsets, with their facts."""
        documents, positions = [], []
        for offset in indices:
            places = np.arange(offset, self.stop(offset))
            found = self._documents(places)
            documents.append(found - found[0])
            positions.append(places - np.maximum(self.store.offsets[found], offset))
        ids = [self._ids(offset) for offset in indices]
        return padded(ids, document=documents, position=positions), None, None

    def _documents(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.store.offsets, places, side="right") - 1


class WindowSampler:
    """Batches of `size` windows, as a function of the seed and the step."""

    def __init__(self, rows: WindowRows, size: int, *, order: Order = "random", seed: int = 0) -> None:
        self.rows = rows
        self.size = size
        self.order = order
        self.seed = seed
        transitions = len(rows.store.ids) - 1
        self._blocks = -(-transitions // rows.length)
        self._offsets = max(1, transitions - rows.length + 1)  # those with a whole window after them
        self._epoch = -1
        self._shuffled = np.zeros(0, dtype=np.int64)

    @property
    def batches_per_epoch(self) -> int:
        """How many batches hold as many tokens as there are."""
        return -(-self._blocks // self.size)

    def batch_at(self, step: int) -> list[int]:
        """The offsets of the windows of a step."""
        if self.order == "random":
            return [int(i) for i in np.random.default_rng([self.seed, step]).integers(self._offsets, size=self.size)]
        epoch, place = divmod(step, self.batches_per_epoch)
        blocks = range(place * self.size, min((place + 1) * self.size, self._blocks))
        if self.order == "consecutive":
            return [block * self.rows.length for block in blocks]
        if epoch != self._epoch:
            self._epoch = epoch
            self._shuffled = np.random.default_rng([self.seed, epoch]).permutation(self._blocks)
        return [int(self._shuffled[block]) * self.rows.length for block in blocks]

    def predicted_at(self, step: int) -> int:
        """How many tokens the windows of a step predict."""
        return sum(self.rows.predicted(offset) for offset in self.batch_at(step))
