"""Batch rows from encoded examples: special tokens around each sequence, padding, and token features."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from kit.contracts.tokenizer import Special
from kit.data.samplers import BatchShard
from kit.data.token_store import EncodedSplit, TokenStore
from kit.sequence.batch import Batch
from kit.sequence.batch_layout import TokenBatch

Sides = tuple[TokenBatch | None, TokenBatch | None, Tensor | None]


class Rows(ABC):
    """Builds batches: `rows[shard]` is the batch of a batch shard. Picklable, for data loader workers."""

    @abstractmethod
    def sides(self, indices: Sequence[int]) -> Sides:
        """Source, target and labels of these examples."""

    def __getitem__(self, shard: BatchShard) -> Batch:
        source, target, labels = self.sides(shard.indices)
        return Batch(
            source,
            target,
            labels,
            shard.step,
            shard.indices,
            shard.num_shards,
            shard.rows,
            shard.predicted,
            shard.counted,
        )


class ExampleRows(Rows):
    """Rows of one example each."""

    def __init__(self, encoded: EncodedSplit) -> None:
        self.encoded = encoded

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.int64]:
        """[examples, sides]: the length of each row, including special tokens."""

    @property
    @abstractmethod
    def predicted(self) -> NDArray[np.int64]:
        """[examples]: the number of tokens that each row predicts autoregressively."""


class Seq2SeqRows(ExampleRows):
    """Source and target for an encoder-decoder. Source: tokens, end. Target: start, tokens, end."""

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
        source = frame_rows(self.encoded.source, indices, [], [Special.END])
        return source, frame_rows(self.encoded.target, indices, [Special.START], [Special.END]), None


class PrefixLMRows(ExampleRows):
    """Pairs in one row for a prefix LM: start, source, separator, target, end; `prefix` is true up to the separator."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The length of the joint row."""
        return np.asarray(self.encoded.lengths.sum(axis=1, keepdims=True) + 3, dtype=np.int64)

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The target and its end."""
        return self.encoded.lengths[:, 1] + 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """These pairs, one row each."""
        assert self.encoded.target is not None
        rows, prefixes = [], []
        for i in indices:
            source, target = self.encoded.source[i], self.encoded.target[i]
            rows.append(_concatenate([Special.START], source, [Special.SEPARATOR], target, [Special.END]))
            prefixes.append(np.arange(len(rows[-1])) < len(source) + 2)
        return pad_rows(rows, prefix=prefixes), None, None


class ClassificationRows(ExampleRows):
    """Sequences with their labels if the examples have labels: start, tokens, end."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The sequence with its two special tokens."""
        return self.encoded.lengths[:, :1] + 2

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The sequence and its end."""
        return self.encoded.lengths[:, 0] + 1

    def sides(self, indices: Sequence[int]) -> Sides:
        """These sequences and their class ids."""
        rows = frame_rows(self.encoded.source, indices, [Special.START], [Special.END])
        labels = self.encoded.labels
        return rows, None, None if labels is None else torch.tensor([int(labels[i][0]) for i in indices])


def frame_rows(store: TokenStore, indices: Sequence[int], before: Sequence[int], after: Sequence[int]) -> TokenBatch:
    """Stored sequences between special tokens, right-padded [B, L]; vectorized over rows."""
    chosen = np.asarray(indices, dtype=np.int64)
    starts = store.offsets[chosen]
    lengths = store.offsets[chosen + 1] - starts
    stops = lengths + len(before)
    columns = np.arange(int(stops.max()) + len(after))
    ids = np.full((len(chosen), len(columns)), int(Special.PADDING), dtype=np.int64)
    ids[:, : len(before)] = before
    inside = (columns >= len(before)) & (columns < stops[:, None])
    ids[inside] = store.ids[(starts[:, None] + (columns - len(before)))[inside]]
    for offset, token in enumerate(after):
        ids[np.arange(len(chosen)), stops + offset] = token
    padding_mask = columns < (stops + len(after))[:, None]
    return TokenBatch(
        torch.from_numpy(ids), None if padding_mask.all() else torch.from_numpy(padding_mask), right_padded=True
    )


def pad_rows(rows: Sequence[NDArray[np.int64]], **features: Sequence[NDArray[np.generic]]) -> TokenBatch:
    """Rows of any length, right-padded [B, L], with token features (0 or false at padding)."""
    shape = (len(rows), max(len(row) for row in rows))
    ids = np.full(shape, int(Special.PADDING), dtype=np.int64)
    padding_mask = np.zeros(shape, dtype=bool)
    filled = {name: np.zeros(shape, dtype=values[0].dtype) for name, values in features.items()}
    for number, row in enumerate(rows):
        ids[number, : len(row)] = row
        padding_mask[number, : len(row)] = True
        for name, values in features.items():
            filled[name][number, : len(row)] = values[number]
    return TokenBatch(
        torch.from_numpy(ids),
        None if padding_mask.all() else torch.from_numpy(padding_mask),
        {name: torch.from_numpy(feature) for name, feature in filled.items()},
        right_padded=True,
    )


def _concatenate(*pieces: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.asarray(piece, dtype=np.int64) for piece in pieces])
