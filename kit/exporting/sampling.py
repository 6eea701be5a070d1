"""Texts to compare an exported model on: held-out examples of its own data, else tokens drawn at random."""

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
from kit.data.batch import Batch
from kit.model.families import DecoderModel, EncoderDecoder, Model
from kit.opening import OpenedRun
from kit.tokens import Tokens
from kit.training.feeding import Feeds

TEXTS = 12
LONGEST = 64
"""Longer texts take longer to compare and show nothing new."""
BATCHES: tuple[tuple[int, ...], ...] = ((LONGEST,), (5, 3, 2), (1, 4), (LONGEST, 9, 31, 2, LONGEST, 17, 1, 12))
"""For each batch the most tokens of each of its texts."""


@dataclass(frozen=True)
class Text:
    """One side of one example."""

    ids: list[int]
    facts: dict[str, Tensor] = field(default_factory=dict)


def samples_of(opened: OpenedRun) -> tuple[list[ExportSample], str]:
    """Batches for comparing, and where they come from."""
    model, length = opened.model, opened.recipe.model.length
    try:
        pairs = list(held_out(opened))
    except Exception:  # whatever keeps the data of a run from being read, the model can still be tried
        pairs = []
    if pairs:
        return batches(model, pairs, length), "held-out examples"
    sizes = [tokenizer.size for tokenizer in (opened.tokenizers.source, opened.tokenizers.target)]
    return batches(model, random_pairs(sizes[0], sizes[1]), length), "random tokens, since its data cannot be read here"


def held_out(opened: OpenedRun) -> Iterator[tuple[Text, Text]]:
    """A few examples as the model was trained on them: source and target, which are the same in a model of one side."""
    choices = opened.choices
    data = choices.data()
    split: Split = next(name for name in ("validation", "test", "train") if name in data.splits())
    few = Few(data, split, opened.labels)
    objective, serves = choices.objective(data)
    with tempfile.TemporaryDirectory() as cache:
        feeds = Feeds(few, opened.tokenizers, objective, serves.form, opened.recipe.model.length, cache=Path(cache))
        for batch in feeds.held_out(split, tokens=4096, most=TEXTS).batches():
            yield from _rows(batch)


def random_pairs(source: int, target: int) -> list[tuple[Text, Text]]:
    """Texts of any tokens but the special ones, the same every time."""
    generator = torch.Generator().manual_seed(0)
    drawn = [
        torch.randint(min(len(Special), size - 1), size, (TEXTS, LONGEST), generator=generator).tolist()
        for size in (source, target)
    ]
    return [(Text(one), Text([int(Special.START), *two])) for one, two in zip(*drawn, strict=True)]


def batches(model: Model, pairs: Sequence[tuple[Text, Text]], length: int) -> list[ExportSample]:
    """Several sizes and lengths, from one token up."""
    found = []
    for number, limits in enumerate(BATCHES):
        chosen = [pairs[(number + place) % len(pairs)] for place in range(len(limits))]
        most = [min(limit, length) for limit in limits]
        source = _joined([pair[0] for pair in chosen], most)
        target = _joined([pair[1] for pair in chosen], most[::-1])
        if isinstance(model, EncoderDecoder):
            found.append(ExportSample(source, target))
        elif isinstance(model, DecoderModel):
            found.append(ExportSample(target=target))
        else:
            found.append(ExportSample(source=source))
    return found


class Few(Data):
    """The first examples of one split."""

    def __init__(self, data: Data, split: Split, labels: tuple[str, ...]) -> None:
        super().__init__(data.options, data.folder)
        self.data = data
        self.split = split
        self._labels = labels

    @property
    def task(self) -> Task:
        """As before."""
        return self.data.task

    def splits(self) -> tuple[Split, ...]:
        """Only one."""
        return (self.split,)

    def open(self, split: Split) -> Sequence[Example]:
        """A few examples."""
        examples = self.data.open(split)
        return [examples[number] for number in range(min(TEXTS, len(examples)))]

    def fingerprint(self) -> str:
        """Nothing is kept, so nothing has to be told apart."""
        return ""

    def labels(self) -> tuple[str, ...]:
        """Those of the run."""
        return self._labels


def _rows(batch: Batch) -> Iterator[tuple[Text, Text]]:
    assert batch.source is not None
    target = batch.source if batch.target is None else batch.target
    for row in range(batch.source.ids.shape[0]):
        yield _text(batch.source, row), _text(target, row)


def _text(tokens: Tokens, row: int) -> Text:
    real = slice(None) if tokens.valid is None else tokens.valid[row]
    return Text(tokens.ids[row][real].tolist(), {name: fact[row][real] for name, fact in tokens.facts.items()})


def _joined(texts: Sequence[Text], most: Sequence[int]) -> Tokens:
    """Texts cut to so many tokens, padded; facts that all of them have come along, as whole numbers."""
    cut = [text.ids[:limit] or [int(Special.END)] for text, limit in zip(texts, most, strict=True)]
    tokens = Tokens.from_lists(cut)
    facts = {}
    for name in set.intersection(*(set(text.facts) for text in texts)):
        values = [text.facts[name][:limit].long() for text, limit in zip(texts, most, strict=True)]
        facts[name] = torch.nn.utils.rnn.pad_sequence(values, batch_first=True)
    return Tokens(tokens.ids, tokens.valid, facts, right_padded=True)
