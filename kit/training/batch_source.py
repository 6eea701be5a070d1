"""Batch sources: the rows of a split and the sampler that says which of them are in the batch of each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kit.contracts.data import Data, Split
from kit.contracts.objective import Objective, RowFormat
from kit.data.packing import DocumentRows, WindowRows, WindowSampler
from kit.data.rows import ClassificationRows, ExampleRows, PrefixLMRows, Rows, Seq2SeqRows
from kit.data.samplers import BatchBudget, BucketSampler, Sampler, shard_of
from kit.data.token_store import encode_documents, encode_split
from kit.data.tokenizers import Tokenizers
from kit.sequence.batch import Batch


@dataclass(frozen=True)
class BatchSource:
    """The rows of a split, and the sampler that says which of them are in the batch of each step."""

    rows: Rows
    sampler: Sampler
    left_out: int = 0
    """The number of examples that are longer than the maximum sequence length, and in no batch."""

    def batches(self) -> Iterator[Batch]:
        """The batches of one epoch, on one process."""
        for step in range(self.sampler.batches_per_epoch):
            yield self.rows[shard_of(self.sampler, step)]


@dataclass(frozen=True)
class BatchSources:
    """Makes the batch sources of a run, for training and for evaluation."""

    data: Data
    tokenizers: Tokenizers
    objective: Objective
    row_format: RowFormat
    length: int
    """The maximum sequence length of the model."""
    split_documents: bool = False
    """Whether a mask separates the documents of a window, so that rows know their documents."""
    cache: Path | None = None

    def training(self, tokens: int, seed: int) -> BatchSource:
        """Shuffled batches of the training split, without end."""
        rows = self._rows("train")
        if isinstance(rows, WindowRows):
            sampler: Sampler = WindowSampler(rows, max(1, tokens // self.length), seed=seed)
            return BatchSource(rows, self._counted(sampler, rows))
        assert isinstance(rows, ExampleRows)
        buckets = BucketSampler(rows.lengths, rows.predicted, BatchBudget(tokens, seed, max_length=self.length))
        return BatchSource(rows, buckets, buckets.left_out)

    def held_out(self, split: Split, tokens: int, max_examples: int | None = None) -> BatchSource:
        """The same batches every time, of a whole split or of a fixed sample of `max_examples` of it."""
        rows = self._rows(split)
        if isinstance(rows, WindowRows):
            blocks = np.arange(0, len(rows.store.ids) - 1, rows.length)
            chosen = _sample(len(blocks), max_examples)
            size = max(1, tokens // self.length)
            starts = [int(offset) for offset in blocks[chosen]]
            batches = [starts[at : at + size] for at in range(0, len(starts), size)]
            fixed = FixedBatches(batches, rows.predicted)
            return BatchSource(rows, self._counted(fixed, rows))
        assert isinstance(rows, ExampleRows)
        fits = np.flatnonzero((rows.lengths <= self.length).all(axis=1))
        kept = fits[_sample(len(fits), max_examples)]
        budget = BatchBudget(max(tokens, int(rows.lengths[kept].sum(axis=1).max(initial=1))), shuffle=False)
        sampler = BucketSampler(rows.lengths[kept], rows.predicted[kept], budget)
        batches = [[int(kept[i]) for i in sampler.batch_at(step)] for step in range(sampler.batches_per_epoch)]
        counts = rows.predicted
        return BatchSource(rows, FixedBatches(batches, lambda index: int(counts[index])), len(rows.lengths) - len(fits))

    def _rows(self, split: Split) -> Rows:
        if self.row_format in ("lm_window", "mlm_block"):
            store = encode_documents(self.data, split, self.tokenizers, self.cache)
            kind = DocumentRows if self.split_documents else WindowRows
            return kind(store, self.length if self.row_format == "lm_window" else max(1, self.length - 1))
        kinds: dict[RowFormat, type[ExampleRows]] = {
            "seq2seq": Seq2SeqRows,
            "prefix_lm": PrefixLMRows,
            "classification": ClassificationRows,
        }
        return kinds[self.row_format](encode_split(self.data, split, self.tokenizers, self.cache))

    def _counted(self, sampler: Sampler, rows: WindowRows) -> Sampler:
        probe = self.objective.predicts(0, 0, self.length)
        return sampler if probe is None else MaskedSampler(sampler, self.objective, rows)


class FixedBatches:
    """A sampler of batches that are given."""

    def __init__(self, batches: Sequence[list[int]], predicted: Callable[[int], int]) -> None:
        self.batches = batches
        self.predicted = predicted

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches."""
        return len(self.batches)

    def batch_at(self, step: int) -> list[int]:
        """The indices of one batch."""
        return self.batches[step % len(self.batches)]

    def num_predictions_at(self, step: int) -> int:
        """The number of tokens that this batch predicts."""
        return sum(self.predicted(index) for index in self.batch_at(step))


class MaskedSampler:
    """A sampler of windows for an objective that predicts only some tokens of each, such as masked ones."""

    def __init__(self, sampler: Sampler, objective: Objective, rows: WindowRows) -> None:
        self.sampler = sampler
        self.objective = objective
        self.rows = rows

    @property
    def batches_per_epoch(self) -> int:
        """The number of batches of the sampler."""
        return self.sampler.batches_per_epoch

    def batch_at(self, step: int) -> list[int]:
        """The windows of the sampler."""
        return self.sampler.batch_at(step)

    def num_predictions_at(self, step: int) -> int:
        """The number of tokens that the objective chooses in this batch."""
        counts = (self.objective.predicts(step, at, self.rows.stop(at) - at) or 0 for at in self.batch_at(step))
        return sum(counts)


def _sample(count: int, size: int | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """A fixed, sorted sample of `size` of the indices below `count`; all of them where there are fewer."""
    if size is None or count <= size:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:size])
