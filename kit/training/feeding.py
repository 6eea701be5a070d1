"""Batches for training and for measuring: which rows they have, and which examples are in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kit.contracts.data import Data, Split
from kit.contracts.objective import Form, Objective
from kit.data.batch import Batch
from kit.data.batching import BucketSampler, Budget, Sampler
from kit.data.encoding import encode_documents, encode_split
from kit.data.packing import PackedRows, WindowRows, WindowSampler
from kit.data.rows import ExampleRows, PairRows, PrefixRows, Rows, TextRows
from kit.data.steps import share_of
from kit.data.tokenizing import Tokenizers

FACTS: dict[Form, frozenset[str]] = {
    "pairs": frozenset(),
    "prefixed": frozenset({"prefix"}),
    "texts": frozenset(),
    "windows": frozenset({"document", "position"}),
    "blocks": frozenset({"document", "position"}),
}
"""What batches of each form can say of every token."""


@dataclass(frozen=True)
class Feed:
    """Rows, and which of them are in the batch of each step."""

    rows: Rows
    sampler: Sampler
    left_out: int = 0
    """Examples that are longer than the model is made for."""

    def batches(self) -> Iterator[Batch]:
        """One epoch, on this process alone."""
        for step in range(self.sampler.batches_per_epoch):
            yield self.rows[share_of(self.sampler, step)]


@dataclass(frozen=True)
class Feeds:
    """Makes the feeds of a run."""

    data: Data
    tokenizers: Tokenizers
    objective: Objective
    form: Form
    length: int
    """The longest row the model is made for."""
    apart: bool = False
    """Whether the model keeps documents that share a window apart."""
    cache: Path | None = None

    def training(self, tokens: int, seed: int) -> Feed:
        """Shuffled batches without end."""
        rows = self._rows("train")
        if isinstance(rows, WindowRows):
            sampler: Sampler = WindowSampler(rows, max(1, tokens // self.length), seed=seed)
            return Feed(rows, self._counted(sampler, rows))
        assert isinstance(rows, ExampleRows)
        buckets = BucketSampler(rows.lengths, rows.predicted, Budget(tokens, seed, longest=self.length))
        return Feed(rows, buckets, buckets.left_out)

    def held_out(self, split: Split, tokens: int, most: int | None = None) -> Feed:
        """The same batches every time, of the whole split or of so many examples drawn from it once and for all."""
        rows = self._rows(split)
        if isinstance(rows, WindowRows):
            blocks = np.arange(0, len(rows.store.ids) - 1, rows.length)
            chosen = _some(len(blocks), most)
            size = max(1, tokens // self.length)
            starts = [int(offset) for offset in blocks[chosen]]
            batches = [starts[at : at + size] for at in range(0, len(starts), size)]
            listed = Listed(batches, rows.predicted)
            return Feed(rows, self._counted(listed, rows))
        assert isinstance(rows, ExampleRows)
        fits = np.flatnonzero((rows.lengths <= self.length).all(axis=1))
        kept = fits[_some(len(fits), most)]
        budget = Budget(max(tokens, int(rows.lengths[kept].sum(axis=1).max(initial=1))), shuffle=False)
        sampler = BucketSampler(rows.lengths[kept], rows.predicted[kept], budget)
        batches = [[int(kept[i]) for i in sampler.batch_at(step)] for step in range(sampler.batches_per_epoch)]
        counts = rows.predicted
        return Feed(rows, Listed(batches, lambda index: int(counts[index])), len(rows.lengths) - len(fits))

    def _rows(self, split: Split) -> Rows:
        if self.form in ("windows", "blocks"):
            store = encode_documents(self.data, split, self.tokenizers, self.cache)
            kind = PackedRows if self.apart else WindowRows
            return kind(store, self.length if self.form == "windows" else max(1, self.length - 1))
        kinds: dict[Form, type[ExampleRows]] = {"pairs": PairRows, "prefixed": PrefixRows, "texts": TextRows}
        return kinds[self.form](encode_split(self.data, split, self.tokenizers, self.cache))

    def _counted(self, sampler: Sampler, rows: WindowRows) -> Sampler:
        probe = self.objective.predicts(0, 0, self.length)
        return sampler if probe is None else Chosen(sampler, self.objective, rows)


class Listed:
    """Batches that were made beforehand."""

    def __init__(self, batches: Sequence[list[int]], predicted: Callable[[int], int]) -> None:
        self.batches = batches
        self.predicted = predicted

    @property
    def batches_per_epoch(self) -> int:
        """How many there are."""
        return len(self.batches)

    def batch_at(self, step: int) -> list[int]:
        """One of them."""
        return self.batches[step % len(self.batches)]

    def predicted_at(self, step: int) -> int:
        """How many tokens it predicts."""
        return sum(self.predicted(index) for index in self.batch_at(step))


class Chosen:
    """A sampler of windows of which the objective predicts only what it chooses."""

    def __init__(self, sampler: Sampler, objective: Objective, rows: WindowRows) -> None:
        self.sampler = sampler
        self.objective = objective
        self.rows = rows

    @property
    def batches_per_epoch(self) -> int:
        """As many as there are without choosing."""
        return self.sampler.batches_per_epoch

    def batch_at(self, step: int) -> list[int]:
        """The same windows."""
        return self.sampler.batch_at(step)

    def predicted_at(self, step: int) -> int:
        """What the objective chooses, summed."""
        counts = (self.objective.predicts(step, at, self.rows.stop(at) - at) or 0 for at in self.batch_at(step))
        return sum(counts)


def _some(count: int, most: int | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """So many of `count` places, always the same and in order; all of them where there are fewer."""
    if most is None or count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:most])
