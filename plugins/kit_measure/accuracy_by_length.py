"""How often a model is right over the length of a text, past the lengths it was trained on (Press et al. 2022)."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Literal

import torch
from pydantic import PositiveInt

from kit import Batch, Measure, Measured, Options, Series, Split, Subject, Tokens


class AccuracyByLengthOptions(Options):
    """Options of `accuracy_by_length`."""

    use: Literal["accuracy_by_length"] = "accuracy_by_length"
    examples: PositiveInt = 1000
    """How many examples of each split are used."""
    step: PositiveInt = 1
    """How many lengths make a point of the curve."""


class AccuracyByLengthMeasure(Measure):
    """Right predictions, given the right ones before, over the length of the row; validation and test together."""

    options_type = AccuracyByLengthOptions
    options: AccuracyByLengthOptions

    @torch.no_grad()
    def measure(self, subject: Subject) -> Measured:
        """Rows of the same length together."""
        right: dict[int, int] = defaultdict(int)
        asked: dict[int, int] = defaultdict(int)
        splits: list[Split] = [split for split in ("validation", "test") if split in subject.data.splits()]
        for split in splits:
            for batch in subject.batches(split, self.options.examples):
                for length, rows in _by_length(batch).items():
                    loss = subject.objective.loss(subject.model, _rows(batch, rows, length))
                    place = (length - 1) // self.options.step
                    right[place] += 0 if loss.correct is None else int(loss.correct)
                    asked[place] += loss.count
        x = [float((place + 1) * self.options.step) for place in sorted(asked)]
        y = [right[place] / max(1, asked[place]) for place in sorted(asked)]
        return Measured({}, [Series("accuracy", x, y, "length of the row", "share of right tokens")])


def _by_length(batch: Batch) -> dict[int, list[int]]:
    assert batch.source is not None
    valid = batch.source.valid
    count = len(batch.source.ids)
    lengths = [batch.source.ids.shape[1]] * count if valid is None else valid.sum(1).tolist()
    found: dict[int, list[int]] = {}
    for row, length in enumerate(lengths):
        found.setdefault(int(length), []).append(row)
    return found


def _rows(batch: Batch, rows: list[int], length: int) -> Batch:
    """Some rows of a batch, all of one length and so without padding."""
    tokens = batch.source
    assert tokens is not None
    facts = {name: fact[rows, :length] for name, fact in tokens.facts.items()}
    source = Tokens(tokens.ids[rows, :length], None, facts, right_padded=True)
    labels = None if batch.labels is None else batch.labels[rows]
    return replace(batch, source=source, labels=labels, indices=tuple(batch.indices[row] for row in rows))
