"""Samples to compare an exported model on: held-out examples of its data, or random tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import torch

from kit.contracts.exporter import ExportSample
from kit.contracts.tokenizer import Special
from kit.model.families import DecoderModel, EncoderDecoder, Model
from kit.prediction.predictor import Predictor
from kit.sequence.batch_layout import TokenBatch

NUM_EXAMPLES = 12
MAX_LENGTH = 64
"""Longer sequences take longer to compare and show nothing new."""
BATCHES: tuple[tuple[int, ...], ...] = ((MAX_LENGTH,), (5, 3, 2), (1, 4), (MAX_LENGTH, 9, 31, 2, MAX_LENGTH, 17, 1, 12))
"""For each batch, the most tokens of each of its sequences."""
Pair = tuple[list[int], list[int]]
"""Token ids of a source and of a target."""


def samples_of(predictor: Predictor) -> tuple[list[ExportSample], str]:
    """Returns batches to compare on, and where they come from."""
    model, length = predictor.run.model, predictor.run.recipe.model.length
    try:
        pairs = list(held_out(predictor))
    except Exception:  # data of any kind may be missing; the model can still be compared
        pairs = []
    if pairs:
        return batches(model, pairs, length), "held-out examples"
    tokenizers = predictor.run.tokenizers
    pairs = random_pairs(tokenizers.source.size, tokenizers.target.size)
    return batches(model, pairs, length), "random tokens, since its data cannot be read here"


def held_out(predictor: Predictor) -> Iterator[Pair]:
    """Yields examples as the model reads them: source and target, which are equal for a model of one tower."""
    run = predictor.run
    data = run.parts.data()
    examples = data.open(next(name for name in ("validation", "test", "train") if name in data.splits()))
    lines = ((line, each.target) for each in examples for line in each.source.splitlines() if line.strip())
    for line, written in islice(lines, NUM_EXAMPLES):
        source = [int(token) for token in predictor.encoder.encode(line).ids]
        target = [*run.tokenizers.target.encode(written), int(Special.END)] if written else []
        yield source, [*([int(Special.START)] if isinstance(run.model, EncoderDecoder) else source), *target]


def random_pairs(source: int, target: int) -> list[Pair]:
    """Draws sequences of ordinary tokens, with a fixed seed."""
    generator = torch.Generator().manual_seed(0)
    drawn = [
        torch.randint(min(len(Special), size - 1), size, (NUM_EXAMPLES, MAX_LENGTH), generator=generator).tolist()
        for size in (source, target)
    ]
    return [(one, [int(Special.START), *two]) for one, two in zip(*drawn, strict=True)]


def batches(model: Model, pairs: Sequence[Pair], length: int) -> list[ExportSample]:
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


def _padded(sequences: Sequence[list[int]], most: Sequence[int]) -> TokenBatch:
    """Cuts sequences to these lengths, at least one token, and pads them."""
    cut = [ids[:limit] or [int(Special.END)] for ids, limit in zip(sequences, most, strict=True)]
    return TokenBatch.from_lists(cut)
