"""Samples to compare an exported model on: held-out examples of its data, or random tokens."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from kit.contracts.data import Data, Example, Split, Task
from kit.contracts.exporter import ExportSample
from kit.contracts.tokenizer import Special
from kit.model.families import DecoderModel, EncoderDecoder, Model
from kit.prediction.load_run import LoadedRun
from kit.sequence.batch import Batch
from kit.sequence.batch_layout import TokenBatch
from kit.training.batch_source import BatchSources

NUM_EXAMPLES = 12
MAX_LENGTH = 64
"""Longer sequences take longer to compare and show nothing new."""
BATCHES: tuple[tuple[int, ...], ...] = ((MAX_LENGTH,), (5, 3, 2), (1, 4), (MAX_LENGTH, 9, 31, 2, MAX_LENGTH, 17, 1, 12))
"""For each batch, the most tokens of each of its sequences."""


@dataclass(frozen=True)
class TokenSequence:
    """The source or the target of an example, as tokens with features."""

    ids: list[int]
    features: dict[str, Tensor] = field(default_factory=dict)


def samples_of(opened: LoadedRun) -> tuple[list[ExportSample], str]:
    """Returns batches to compare on, and where they come from."""
    model, length = opened.model, opened.recipe.model.length
    try:
        pairs = list(held_out(opened))
    except Exception:  # data of any kind may be missing; the model can still be compared
        pairs = []
    if pairs:
        return batches(model, pairs, length), "held-out examples"
    sizes = [tokenizer.size for tokenizer in (opened.tokenizers.source, opened.tokenizers.target)]
    return batches(model, random_pairs(sizes[0], sizes[1]), length), "random tokens, since its data cannot be read here"


def held_out(opened: LoadedRun) -> Iterator[tuple[TokenSequence, TokenSequence]]:
    """Yields encoded examples: source and target, which are equal for a model of one tower."""
    parts = opened.parts
    data = parts.data()
    split: Split = next(name for name in ("validation", "test", "train") if name in data.splits())
    examples = FirstExamples(data, split, opened.labels)
    objective, supports = parts.objective(data)
    with tempfile.TemporaryDirectory() as cache:
        sources = BatchSources(
            examples, opened.tokenizers, objective, supports.row_format, opened.recipe.model.length, cache=Path(cache)
        )
        for batch in sources.held_out(split, tokens=4096, max_examples=NUM_EXAMPLES).batches():
            yield from _rows(batch)


def random_pairs(source: int, target: int) -> list[tuple[TokenSequence, TokenSequence]]:
    """Draws sequences of ordinary tokens, with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    drawn = [
        torch.randint(min(len(Special), size - 1), size, (NUM_EXAMPLES, MAX_LENGTH), generator=generator).tolist()
        for size in (source, target)
    ]
    return [(TokenSequence(one), TokenSequence([int(Special.START), *two])) for one, two in zip(*drawn, strict=True)]


def batches(model: Model, pairs: Sequence[tuple[TokenSequence, TokenSequence]], length: int) -> list[ExportSample]:
    """Makes batches of several sizes and lengths, from one token up."""
    found = []
    for number, limits in enumerate(BATCHES):
        chosen = [pairs[(number + index) % len(pairs)] for index in range(len(limits))]
        most = [min(limit, length) for limit in limits]
        source = _padded([pair[0] for pair in chosen], most)
        target = _padded([pair[1] for pair in chosen], most[::-1])
        if isinstance(model, EncoderDecoder):
            found.append(ExportSample(source, target))
        elif isinstance(model, DecoderModel):
            found.append(ExportSample(target=target))
        else:
            found.append(ExportSample(source=source))
    return found


class FirstExamples(Data):
    """The first examples of one split of other data."""

    def __init__(self, data: Data, split: Split, labels: tuple[str, ...]) -> None:
        super().__init__(data.options, data.folder)
        self.data = data
        self.split = split
        self._labels = labels

    @property
    def task(self) -> Task:
        """The task of the data."""
        return self.data.task

    def splits(self) -> tuple[Split, ...]:
        """The single split."""
        return (self.split,)

    def open(self, split: Split) -> Sequence[Example]:
        """Returns the first examples."""
        examples = self.data.open(split)
        return [examples[number] for number in range(min(NUM_EXAMPLES, len(examples)))]

    def fingerprint(self) -> str:
        """Returns an empty fingerprint, because nothing is cached."""
        return ""

    def labels(self) -> tuple[str, ...]:
        """The labels of the run."""
        return self._labels


def _rows(batch: Batch) -> Iterator[tuple[TokenSequence, TokenSequence]]:
    assert batch.source is not None
    target = batch.source if batch.target is None else batch.target
    for row in range(batch.source.ids.shape[0]):
        yield _sequence(batch.source, row), _sequence(target, row)


def _sequence(tokens: TokenBatch, row: int) -> TokenSequence:
    real = slice(None) if tokens.padding_mask is None else tokens.padding_mask[row]
    return TokenSequence(
        tokens.ids[row][real].tolist(), {name: feature[row][real] for name, feature in tokens.features.items()}
    )


def _padded(sequences: Sequence[TokenSequence], most: Sequence[int]) -> TokenBatch:
    """Cuts sequences to these lengths and pads them; features that all of them have become integers."""
    cut = [each.ids[:limit] or [int(Special.END)] for each, limit in zip(sequences, most, strict=True)]
    tokens = TokenBatch.from_lists(cut)
    features = {}
    for name in set.intersection(*(set(each.features) for each in sequences)):
        values = [each.features[name][:limit].long() for each, limit in zip(sequences, most, strict=True)]
        features[name] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return TokenBatch(tokens.ids, tokens.padding_mask, features, right_padded=True)
