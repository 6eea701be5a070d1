"""Unigram lattices of many words: forward-backward expectations and Viterbi scores, vectorized over words.

An edge is a piece that spans a word from `start` to `stop`. Shapes: W words, P pieces, L longest word length + 1.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class UnigramLattice:
    """All segmentations of words into pieces; whole_words: whether a piece may span a whole word."""

    def __init__(self, words: Sequence[str], pieces: Sequence[str], max_len: int, *, whole_words: bool = True) -> None:
        piece_ids = {piece: piece_id for piece_id, piece in enumerate(pieces)}
        found = array("i")  # four integers per edge
        for index, word in enumerate(words):
            for start in range(len(word)):
                for stop in range(start + 1, min(len(word), start + max_len) + 1):
                    piece_id = piece_ids.get(word[start:stop])
                    if piece_id is not None and (whole_words or stop - start < len(word)):
                        found.extend((index, start, stop, piece_id))
        edges: Integers = np.array(found, dtype=np.int64).reshape(-1, 4)
        self.word, self.start, self.stop, self.piece = edges.T
        self.lengths: Integers = np.array([len(word) for word in words], dtype=np.int64)
        self.num_pieces = len(pieces)

    def expected_counts(self, log_probs: Floats, word_counts: Floats) -> Floats:
        """The expected count [P] of each piece over all segmentations (E step), by the forward-backward algorithm."""
        after, before = self.lengths[self.word] - self.stop, self.lengths[self.word] - self.start  # from the word's end
        forward = self._forward(log_probs, self.start, self.stop, np.logaddexp)
        backward = self._forward(log_probs, after, before, np.logaddexp)
        total = forward[np.arange(len(self.lengths)), self.lengths][self.word]
        log_posterior = forward[self.word, self.start] + log_probs[self.piece] + backward[self.word, after] - total
        weights = np.exp(log_posterior) * word_counts[self.word]
        return np.asarray(np.bincount(self.piece, weights=weights, minlength=self.num_pieces), dtype=np.float64)

    def viterbi_scores(self, log_probs: Floats) -> Floats:
        """The log-probability [W] of the best segmentation of each word; -inf if there is none."""
        table = self._forward(log_probs, self.start, self.stop, np.maximum)
        return np.asarray(table[np.arange(len(self.lengths)), self.lengths])

    def _forward(self, log_probs: Floats, start: Integers, stop: Integers, reduce: np.ufunc) -> Floats:
        """Forward scores [W, L] from the start of a word; reduce: logaddexp (sum) or maximum (Viterbi)."""
        table: Floats = np.full((len(self.lengths), int(self.lengths.max(initial=0)) + 1), -np.inf)
        table[:, 0] = 0.0
        order = np.lexsort((self.word, stop))
        bounds = np.searchsorted(stop[order], np.arange(table.shape[1] + 1))
        for position in range(1, table.shape[1]):
            ending = order[bounds[position] : bounds[position + 1]]
            if len(ending):
                words, first = np.unique(self.word[ending], return_index=True)
                scores = table[self.word[ending], start[ending]] + log_probs[self.piece[ending]]
                table[words, position] = reduce.reduceat(scores, first)
        return table
