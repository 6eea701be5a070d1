"""Windows of fixed length over a token stream: plain, or with document and position features for document masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kit.data.paths import DataError
from kit.data.rows import Rows, Sides, pad_rows
from kit.data.token_store import TokenStore

Order = Literal["random", "shuffled", "consecutive"]
"""random: offsets drawn uniformly each step; shuffled: adjacent blocks, each once an epoch; consecutive: in order."""


class WindowRows(Rows):
    """Windows of the token stream; the index of a window is the offset of its first token.

    A window has `length` + 1 tokens, so that an objective that shifts it predicts `length` tokens.
    """

    def __init__(self, store: TokenStore, length: int) -> None:
        if len(store.ids) < 2:
            raise DataError("no text to cut windows from: at least two tokens are wanted")
        self.store = store
        self.length = length

    def stop(self, offset: int) -> int:
        """The end of the window that starts at an offset; the last window of the stream may be shorter."""
        return min(offset + self.length + 1, len(self.store.ids))

    def predicted(self, offset: int) -> int:
        """The number of tokens that a window predicts."""
        return self.stop(offset) - offset - 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """The windows at these offsets."""
        return pad_rows([self._ids(offset) for offset in indices]), None, None

    def _ids(self, offset: int) -> NDArray[np.int64]:
        return np.asarray(self.store.ids[offset : self.stop(offset)], dtype=np.int64)


class DocumentRows(WindowRows):
    """Windows with token features for document masking.

    The feature `document` numbers the documents of a window from 0, and `position` counts from 0 in each document. An
    objective ignores the targets at which `document` changes: no token is predicted from the previous document.
    """

    def predicted(self, offset: int) -> int:
        """The number of tokens with a previous token of the same document."""
        first, last = self._documents(np.array([offset, self.stop(offset) - 1]))
        return super().predicted(offset) - int(last - first)

    def sides(self, indices: Sequence[int]) -> Sides:
        """The windows at these offsets, with their features."""
        documents, positions = [], []
        for offset in indices:
            stream_positions = np.arange(offset, self.stop(offset))
            found = self._documents(stream_positions)
            documents.append(found - found[0])
            positions.append(stream_positions - np.maximum(self.store.offsets[found], offset))
        ids = [self._ids(offset) for offset in indices]
        return pad_rows(ids, document=documents, position=positions), None, None

    def _documents(self, stream_positions: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.searchsorted(self.store.offsets, stream_positions, side="right") - 1


class WindowSampler:
    """Global batches of `size` windows, a pure function of the seed and the step."""

    def __init__(self, rows: WindowRows, size: int, *, order: Order = "random", seed: int = 0) -> None:
        self.rows = rows
        self.size = size
        self.order = order
        self.seed = seed
        transitions = len(rows.store.ids) - 1
        self._blocks = -(-transitions // rows.length)
        self._offsets = max(1, transitions - rows.length + 1)  # offsets of full windows
        self._epoch = -1
        self._shuffled = np.zeros(0, dtype=np.int64)

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches with as many tokens as the stream."""
        return -(-self._blocks // self.size)

    def batch_at(self, step: int) -> list[int]:
        """The offsets of the windows of a step."""
        if self.order == "random":
            return [int(i) for i in np.random.default_rng([self.seed, step]).integers(self._offsets, size=self.size)]
        epoch, batch = divmod(step, self.batches_per_epoch)
        blocks = range(batch * self.size, min((batch + 1) * self.size, self._blocks))
        if self.order == "consecutive":
            return [block * self.rows.length for block in blocks]
        if epoch != self._epoch:
            self._epoch = epoch
            self._shuffled = np.random.default_rng([self.seed, epoch]).permutation(self._blocks)
        return [int(self._shuffled[block]) * self.rows.length for block in blocks]

    def num_predictions_at(self, step: int) -> int:
        """The number of tokens that the windows of a step predict."""
        return sum(self.rows.predicted(offset) for offset in self.batch_at(step))
