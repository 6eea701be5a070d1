"""All ways to cut many words into known pieces at once, as arrays: sums and maxima over cuts, place by place.

An edge is a piece that stands in a word from one place to another; scores are logarithms of probabilities.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Lattice:
    """The edges of words. whole: whether a piece may be a whole word (else a word is spelt with shorter ones only)."""

    def __init__(self, words: Sequence[str], pieces: Sequence[str], longest: int, *, whole: bool = True) -> None:
        numbers = {piece: number for number, piece in enumerate(pieces)}
        found = array("i")  # four numbers an edge
        for word, text in enumerate(words):
            for start in range(len(text)):
                for stop in range(start + 1, min(len(text), start + longest) + 1):
                    piece = numbers.get(text[start:stop])
                    if piece is not None and (whole or stop - start < len(text)):
                        found.extend((word, start, stop, piece))
        edges: Integers = np.array(found, dtype=np.int64).reshape(-1, 4)
        self.word, self.start, self.stop, self.piece = edges.T
        self.lengths: Integers = np.array([len(word) for word in words], dtype=np.int64)
        self.pieces = len(pieces)

    def expected(self, scores: Floats, counts: Floats) -> Floats:
        """How often each piece is expected, over all cuts of all words by their probability."""
        after, before = self.lengths[self.word] - self.stop, self.lengths[self.word] - self.start  # from the word's end
        forward = self._sweep(scores, self.start, self.stop, np.logaddexp)
        backward = self._sweep(scores, after, before, np.logaddexp)
        total = forward[np.arange(len(self.lengths)), self.lengths][self.word]
        logarithm = forward[self.word, self.start] + scores[self.piece] + backward[self.word, after] - total
        counted = np.bincount(self.piece, weights=np.exp(logarithm) * counts[self.word], minlength=self.pieces)
        return np.asarray(counted, dtype=np.float64)

    def best(self, scores: Floats) -> Floats:
        """The score of the likeliest cut of each word; minus infinity where there is none."""
        table = self._sweep(scores, self.start, self.stop, np.maximum)
        return np.asarray(table[np.arange(len(self.lengths)), self.lengths])

    def _sweep(self, scores: Floats, start: Integers, stop: Integers, join: np.ufunc) -> Floats:
        """Scores [word, place] of getting from a word's start to a place: all words at once, a place at a time."""
        table: Floats = np.full((len(self.lengths), int(self.lengths.max(initial=0)) + 1), -np.inf)
        table[:, 0] = 0.0
        order = np.lexsort((self.word, stop))
        bounds = np.searchsorted(stop[order], np.arange(table.shape[1] + 1))
        for place in range(1, table.shape[1]):
            here = order[bounds[place] : bounds[place + 1]]
            if len(here):
                words, first = np.unique(self.word[here], return_index=True)
                values = table[self.word[here], start[here]] + scores[self.piece[here]]
                table[words, place] = join.reduceat(values, first)
        return table
