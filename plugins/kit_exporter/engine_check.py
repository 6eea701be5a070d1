"""Compares CTranslate2 with the model: how likely it finds given texts, and which texts it writes by itself.

Shapes: B texts, L tokens, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kit import EncoderDecoder, Exportable, ExportCheck, Special, Tokens
from kit_exporter.terms import NEVER

WRITTEN, BEGUN = 24, 3
"""How many tokens each text may have, and how many of them a language model is given to go on from."""
ENDS = (int(Special.START), int(Special.END), int(Special.PADDING))


def compare_written(
    subject: Exportable, engine: Any, names: dict[str, list[str]], tolerance: float, unlike: float
) -> list[ExportCheck]:
    """Log-probabilities of every token of every sample, and greedy search on the same sources or beginnings."""
    pairs = [pair for sample in subject.samples for pair in _pairs(sample.source, sample.target, subject.length - 1)]
    apart, tokens = 0.0, 0
    for pair, found in zip(pairs, _scored(subject, engine, names, pairs), strict=True):
        wanted = _log_probabilities(subject, *pair)
        apart = max(apart, max((abs(a - b) for a, b in zip(wanted, found, strict=True)), default=0.0))
        tokens += len(wanted)
    begun = [(source, target[:BEGUN]) for source, target in pairs]
    ours, theirs = _greedy(subject, begun), _written(subject, engine, names, begun)
    different = sum(one != other for one, other in zip(ours, theirs, strict=True))
    return [
        ExportCheck(f"log-probabilities of {tokens} tokens", apart, tolerance),
        ExportCheck(f"share of {len(pairs)} texts that greedy search writes otherwise", different / len(pairs), unlike),
    ]


Pair = tuple[list[int], list[int]]
"""What an encoder reads, its end included (nothing where there is none), and what a decoder wrote, from its start."""


def _pairs(source: Tokens | None, target: Tokens | None, most: int) -> list[Pair]:
    """Texts of at most so many tokens, besides their start or end."""
    assert target is not None
    targets = [[token for token in row if token not in ENDS] for row in _rows(target)]
    targets = [row[:most] for row in targets]
    if source is None:
        return [([], [int(Special.START), *row]) for row in targets]
    sources = [[token for token in row if token not in ENDS] for row in _rows(source)]
    sources = [row[:most] for row in sources]
    return [([*one, int(Special.END)], [int(Special.START), *two]) for one, two in zip(sources, targets, strict=True)]


def _rows(tokens: Tokens) -> list[list[int]]:
    if tokens.valid is None:
        return [[int(token) for token in row] for row in tokens.ids.tolist()]
    return [row[real].tolist() for row, real in zip(tokens.ids, tokens.valid, strict=True)]


@torch.no_grad()
def _log_probabilities(subject: Exportable, source: list[int], target: list[int]) -> list[float]:
    """Of each token after the first; in an encoder-decoder also of the end."""
    model: Any = subject.model
    read, end = torch.tensor([target]), isinstance(model, EncoderDecoder)
    scores_LV: Tensor = (model(torch.tensor([source]), read) if end else model(read))[0].log_softmax(-1)
    following = [*target[1:], *([int(Special.END)] if end else [])]
    return [float(scores_LV[place, token]) for place, token in enumerate(following)]


def _scored(subject: Exportable, engine: Any, names: dict[str, list[str]], pairs: Sequence[Pair]) -> list[list[float]]:
    targets = [[names["decoder"][token] for token in target] for _, target in pairs]
    if not isinstance(subject.model, EncoderDecoder):
        scored = engine.score_batch([target if len(target) > 1 else target * 2 for target in targets])
        return [it.log_probs if len(target) > 1 else [] for it, target in zip(scored, targets, strict=True)]
    sources = [[names["encoder"][token] for token in source[:-1]] for source, _ in pairs]
    return [it.log_probs for it in engine.score_batch(sources, [target[1:] for target in targets])]


def _written(subject: Exportable, engine: Any, names: dict[str, list[str]], pairs: Sequence[Pair]) -> list[list[int]]:
    number = {name: token for token, name in enumerate(names["decoder"])}
    never = [[names["decoder"][token]] for token in NEVER]
    options = {"beam_size": 1, "suppress_sequences": never}
    if isinstance(subject.model, EncoderDecoder):
        sources = [[names["encoder"][token] for token in source[:-1]] for source, _ in pairs]
        found = engine.translate_batch(sources, max_decoding_length=_room(subject), **options)
        return [[number[token] for token in it.hypotheses[0]] for it in found]
    prompts = [[names["decoder"][token] for token in target] for _, target in pairs]
    found = engine.generate_batch(prompts, max_length=_room(subject), include_prompt_in_result=False, **options)
    return [[number[token] for token in it.sequences[0]] for it in found]


@torch.no_grad()
def _greedy(subject: Exportable, pairs: Sequence[Pair]) -> list[list[int]]:
    """The likeliest token at every step, text by text."""
    model: Any = subject.model
    written = []
    for source, target in pairs:
        crossing = isinstance(model, EncoderDecoder)
        session = model.start(torch.tensor([source])) if crossing else model.start()
        read, found = [int(Special.START)] if crossing else target, list[int]()
        while len(found) < _room(subject):
            scores_V = session.step(torch.tensor([read]), last=True)[0, -1]
            scores_V[list(NEVER)] = float("-inf")
            token = int(scores_V.argmax())
            if token == Special.END:
                break
            found.append(token)
            read = [token]
        written.append(found)
    return written


def _room(subject: Exportable) -> int:
    """How many tokens there is room for, where positions have an end."""
    return max(1, min(WRITTEN, subject.length) - BEGUN)
