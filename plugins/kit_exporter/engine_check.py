"""Compares CTranslate2 with the model: how likely it finds given texts, and which texts it writes by itself.

Shapes: B texts, L tokens, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import torch
from torch import Tensor

from kit import EncoderDecoder, Exportable, ExportCheck, Special, Tokens
from kit_exporter.terms import NEVER

WRITTEN, BEGUN = 24, 3
"""How many tokens each text may have, and how many of them a language model is given to go on from."""
ENDS = (int(Special.START), int(Special.END), int(Special.PADDING))


Pair = tuple[list[int], list[int]]
"""What an encoder reads, its end included (nothing where there is none), and what a decoder wrote, from its start."""


def compare_written(
    subject: Exportable, engine: Any, names: dict[str, list[str]], tolerance: float
) -> list[ExportCheck]:
    """Log-probabilities of every token of every sample, and greedy search on the same sources or beginnings."""
    pairs = [pair for sample in subject.samples for pair in _pairs(sample.source, sample.target, subject.length - 1)]
    apart: list[float] = []
    for pair, found in zip(pairs, _scored(subject, engine, names, pairs), strict=True):
        wanted = _log_probabilities(subject, *pair)
        apart += [abs(one - other) for one, other in zip(wanted, found, strict=True)]
    begun = [(source, target[:BEGUN]) for source, target in pairs]
    both = list(zip(begun, _greedy(subject, begun), _written(subject, engine, names, begun), strict=True))
    same = sum(one == other for _, one, other in both)
    gaps = [_gap(subject, pair, one, other) for pair, one, other in both]
    others = "" if same == len(both) else "; others by"
    return [
        ExportCheck(f"log-probabilities of {len(apart)} tokens", _largest(apart), tolerance),
        ExportCheck(f"greedy search: {same} of {len(both)} texts the same{others}", _largest(gaps), tolerance),
    ]


def _largest(values: Sequence[float]) -> float:
    """A maximum that does not lose what is not a number."""
    return max(values, default=0.0) if all(map(isfinite, values)) else inf


def _gap(subject: Exportable, pair: Pair, ours: list[int], theirs: list[int]) -> float:
    """How much likelier the model finds its own token than the engine's, where two texts part; nothing in a tie."""
    if ours == theirs:
        return 0.0
    one, other = ([*text, int(Special.END)] for text in (ours, theirs))
    place = next(place for place, tokens in enumerate(zip(one, other, strict=False)) if tokens[0] != tokens[1])
    source, begun = pair
    start = [int(Special.START)] if isinstance(subject.model, EncoderDecoder) else begun
    scores_V = _scores(subject, source, [*start, *one[:place]])[-1]
    return abs(float(scores_V[one[place]] - scores_V[other[place]]))


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
def _scores(subject: Exportable, source: list[int], target: list[int]) -> Tensor:
    """Log-probabilities of the token after each, [L, V]."""
    model: Any = subject.model
    read = torch.tensor([target])
    crossing = isinstance(model, EncoderDecoder)
    scores: Tensor = model(torch.tensor([source]), read) if crossing else model(read)
    return scores[0].log_softmax(-1)


def _log_probabilities(subject: Exportable, source: list[int], target: list[int]) -> list[float]:
    """Of each token after the first; in an encoder-decoder also of the end."""
    scores_LV = _scores(subject, source, target)
    following = [*target[1:], *([int(Special.END)] if isinstance(subject.model, EncoderDecoder) else [])]
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
        limits = {"min_decoding_length": 0, "max_decoding_length": _room(subject)}
        found = engine.translate_batch(sources, **limits, **options)
        return [[number[token] for token in it.hypotheses[0]] for it in found]
    written = []
    for _, target in pairs:  # one by one: of a batch it would leave the rest of longer prompts in the result
        prompt = [[names["decoder"][token] for token in target]]
        found = engine.generate_batch(prompt, max_length=_room(subject), include_prompt_in_result=False, **options)
        written.append([number[token] for token in found[0].sequences[0]])
    return written


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
