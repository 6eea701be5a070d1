"""Accuracy by sequence length, for length extrapolation beyond the training lengths (Press et al. 2022)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Literal

import torch
from pydantic import PositiveInt

from kit import Batch, Measure, Measured, Options, Series, Split, Subject, TokenBatch


class AccuracyByLengthOptions(Options):
    """Options of `accuracy_by_length`."""

    use: Literal["accuracy_by_length"] = "accuracy_by_length"
    examples: PositiveInt = 1000
    """Examples of each split."""
    step: PositiveInt = 1
    """Lengths in a point of the curve."""


class AccuracyByLengthMeasure(Measure):
    """Teacher-forced accuracy by row length, over validation and test together."""

    options_type = AccuracyByLengthOptions
    options: AccuracyByLengthOptions

    @torch.no_grad()
    def measure(self, subject: Subject) -> Measured:
        """Group rows by length."""
        correct: dict[int, int] = defaultdict(int)
        predictions: dict[int, int] = defaultdict(int)
        splits: list[Split] = [split for split in ("validation", "test") if split in subject.data.splits()]
        for split in splits:
            for batch in subject.batches(split, self.options.examples):
                for length, rows in _by_length(batch).items():
                    loss = subject.objective.loss(subject.model, _rows(batch, rows, length))
                    bucket = (length - 1) // self.options.step
                    correct[bucket] += 0 if loss.correct is None else int(loss.correct)
                    predictions[bucket] += loss.num_predictions
        x = [float((bucket + 1) * self.options.step) for bucket in sorted(predictions)]
        y = [correct[bucket] / max(1, predictions[bucket]) for bucket in sorted(predictions)]
        return Measured({}, [Series("accuracy", x, y, "length of the row", "accuracy")])


def _by_length(batch: Batch) -> dict[int, list[int]]:
    assert batch.source is not None
    padding_mask = batch.source.padding_mask
    count = len(batch.source.ids)
    lengths = [batch.source.ids.shape[1]] * count if padding_mask is None else padding_mask.sum(1).tolist()
    found: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        found.setdefault(int(length), []).append(row)
    return found


def _rows(batch: Batch, rows: list[int], length: int) -> Batch:
    """Rows of one length from a batch, without padding."""
    tokens = batch.source
    assert tokens is not None
    features = {name: feature[rows, :length] for name, feature in tokens.features.items()}
    source = TokenBatch(tokens.ids[rows, :length], None, features, right_padded=True)
    labels = None if batch.labels is None else batch.labels[rows]
    return replace(batch, source=source, labels=labels, indices=tuple(batch.indices[row] for row in rows))
