"""Rows of a batch from encoded examples: which tokens stand at their ends, and how two sides are put together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kit.contracts.tokenizer import Special
from kit.data.batch import Batch
from kit.data.encoding import Encoded
from kit.data.steps import Share
from kit.data.store import TokenStore
from kit.tokens import Tokens

Sides = tuple[Tokens | None, Tokens | None, Tensor | None]


class Rows(ABC):
    """Makes batches: `rows[share]` is the batch of a share. Can be pickled, for the workers of a loader."""

    @abstractmethod
    def sides(self, indices: Sequence[int]) -> Sides:
        """Source, target and labels of these examples."""

    def __getitem__(self, share: Share) -> Batch:
        source, target, labels = self.sides(share.indices)
        return Batch(
            source, target, labels, share.step, share.indices, share.parts, share.rows, share.predicted, share.counted
        )


class ExampleRows(Rows):
    """Rows that are one example each."""

    def __init__(self, encoded: Encoded) -> None:
        self.encoded = encoded

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64]:
        """[examples, sides]: how long each row is, the tokens at its ends counted."""

    @property
    @abstractmethod
    def predicted(self) -> NDArray[np.int64]:
        """[examples]: how many tokens each row predicts when it is written from left to right."""


class PairRows(ExampleRows):
    """For an encoder-decoder. Source: text, end. Target: start, text, end."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Source and target."""
        return np.add(self.encoded.lengths, [1, 2], dtype=np.int64)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The target and its end."""
        return self.encoded.lengths[:, 1] + 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """Source and target of these pairs."""
        assert self.encoded.target is not None
        source = framed(self.encoded.source, indices, [], [Special.END])
        return source, framed(self.encoded.target, indices, [Special.START], [Special.END]), None


class PrefixRows(ExampleRows):
    """Pairs for one stack: start, source, separator, target, end; the fact `prefix` is true up to the separator."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Both sides in one row."""
        return np.asarray(self.encoded.lengths.sum(axis=1, keepdims=True) + 3, dtype=np.int64)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The target and its end."""
        return self.encoded.lengths[:, 1] + 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """These pairs, each as one row."""
        assert self.encoded.target is not None
        rows, prefixes = [], []
        for i in indices:
            source, target = self.encoded.source[i], self.encoded.target[i]
            rows.append(_joined([Special.START], source, [Special.SEPARATOR], target, [Special.END]))
            prefixes.append(np.arange(len(rows[-1])) < len(source) + 2)
        return padded(rows, prefix=prefixes), None, None


class TextRows(ExampleRows):
    """Texts, with labels where the examples have them: start, text, end."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The text and its two ends."""
        return self.encoded.lengths[:, :1] + 2

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The text and its end."""
        return self.encoded.lengths[:, 0] + 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """These texts and their classes."""
        rows = framed(self.encoded.source, indices, [Special.START], [Special.END])
        labels = self.encoded.labels
        return rows, None, None if labels is None else torch.tensor([int(labels[i][0]) for i in indices])


def framed(store: TokenStore, indices: Sequence[int], before: Sequence[int], after: Sequence[int]) -> Tokens:
    """Stored texts between the same tokens, padded on the right; all rows at once, since this is done at every step."""
    chosen = np.asarray(indices, dtype=np.int64)
    starts = store.offsets[chosen]
    lengths = store.offsets[chosen + 1] - starts
    stops = lengths + len(before)
    columns = np.arange(int(stops.max()) + len(after))
    ids = np.full((len(chosen), len(columns)), int(Special.PADDING), dtype=np.int64)
    ids[:, : len(before)] = before
    inside = (columns >= len(before)) & (columns < stops[:, None])
    ids[inside] = store.ids[(starts[:, None] + (columns - len(before)))[inside]]
    for place, token in enumerate(after):
        ids[np.arange(len(chosen)), stops + place] = token
    valid = columns < (stops + len(after))[:, None]
    return Tokens(torch.from_numpy(ids), None if valid.all() else torch.from_numpy(valid), right_padded=True)


def padded(rows: Sequence[NDArray[np.int64]], **facts: Sequence[NDArray[np.generic]]) -> Tokens:
    """Rows of any length, padded on the right, with facts (0 or false at padding) about each token."""
    shape = (len(rows), max(len(row) for row in rows))
    ids = np.full(shape, int(Special.PADDING), dtype=np.int64)
    valid = np.zeros(shape, dtype=bool)
    filled = {name: np.zeros(shape, dtype=values[0].dtype) for name, values in facts.items()}
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        valid[number, : len(row)] = True
        for name, values in facts.items():
            filled[name][number, : len(row)] = values[number]
    return Tokens(
        torch.from_numpy(ids),
        None if valid.all() else torch.from_numpy(valid),
        {name: torch.from_numpy(fact) for name, fact in filled.items()},
        right_padded=True,
    )


def _joined(*pieces: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.asarray(piece, dtype=np.int64) for piece in pieces])
