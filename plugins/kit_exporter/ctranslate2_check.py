"""Compares CTranslate2 with the model: log-probabilities of given sequences, and greedy decoding.

Shapes: L tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import torch
from torch import Tensor

from kit import EncoderDecoder, Exportable, ExportCheck, Special, TokenBatch
from kit_exporter.part_description import SUPPRESSED_IDS

MAX_TOKENS, PROMPT_TOKENS = 24, 3
"""The most tokens of a generated sequence, and how many of them a language model is given as its prompt."""
ENDS = (int(Special.START), int(Special.END), int(Special.PADDING))


Pair = tuple[list[int], list[int]]
"""A source with its end token (empty without an encoder), and a target with its start token."""


def compare_generation(
    subject: Exportable, engine: Any, names: dict[str, list[str]], tolerance: float
) -> list[ExportCheck]:
    """Compares log-probabilities of the tokens of all samples, and greedy search on the same sources or prompts."""
    pairs = [pair for sample in subject.samples for pair in _pairs(sample.source, sample.target, subject.length - 1)]
    differences: list[float] = []
    for pair, found in zip(pairs, _engine_log_probabilities(subject, engine, names, pairs), strict=True):
        wanted = _log_probabilities(subject, *pair)
        differences += [abs(one - other) for one, other in zip(wanted, found, strict=True)]
    prompts = [(source, target[:PROMPT_TOKENS]) for source, target in pairs]
    both = list(zip(prompts, _greedy(subject, prompts), _engine_greedy(subject, engine, names, prompts), strict=True))
    same = sum(one == other for _, one, other in both)
    gaps = [_gap(subject, pair, one, other) for pair, one, other in both]
    others = "" if same == len(both) else "; others by"
    return [
        ExportCheck(f"log-probabilities of {len(differences)} tokens", _largest(differences), tolerance),
        ExportCheck(f"greedy search: {same} of {len(both)} texts the same{others}", _largest(gaps), tolerance),
    ]


def _largest(values: Sequence[float]) -> float:
    """Returns the maximum, or infinity if a value is NaN or infinite."""
    return max(values, default=0.0) if all(map(isfinite, values)) else inf


def _gap(subject: Exportable, pair: Pair, ours: list[int], theirs: list[int]) -> float:
    """Returns the difference of log-probabilities at the first token that differs; 0 if none does."""
    if ours == theirs:
        return 0.0
    one, other = ([*text, int(Special.END)] for text in (ours, theirs))
    place = next(place for place, tokens in enumerate(zip(one, other, strict=False)) if tokens[0] != tokens[1])
    source, prompts = pair
    start = [int(Special.START)] if isinstance(subject.model, EncoderDecoder) else prompts
    log_p_V = _next_log_probabilities(subject, source, [*start, *one[:place]])[-1]
    return abs(float(log_p_V[one[place]] - log_p_V[other[place]]))


def _pairs(source: TokenBatch | None, target: TokenBatch | None, most: int) -> list[Pair]:
    """Returns sources and targets of at most this many tokens without start and end."""
    assert target is not None
    targets = [[token for token in row if token not in ENDS] for row in _rows(target)]
    targets = [row[:most] for row in targets]
    if source is None:
        return [([], [int(Special.START), *row]) for row in targets]
    sources = [[token for token in row if token not in ENDS] for row in _rows(source)]
    sources = [row[:most] for row in sources]
    return [([*one, int(Special.END)], [int(Special.START), *two]) for one, two in zip(sources, targets, strict=True)]


def _rows(tokens: TokenBatch) -> list[list[int]]:
    if tokens.padding_mask is None:
        return [[int(token) for token in row] for row in tokens.ids.tolist()]
    return [row[real].tolist() for row, real in zip(tokens.ids, tokens.padding_mask, strict=True)]


@torch.no_grad()
def _next_log_probabilities(subject: Exportable, source: list[int], target: list[int]) -> Tensor:
    """Returns log-probabilities of the next token after each, [L, V]."""
    model: Any = subject.model
    read = torch.tensor([target])
    cross_attention = isinstance(model, EncoderDecoder)
    log_probs: Tensor = model(torch.tensor([source]), read) if cross_attention else model(read)
    return log_probs[0].log_softmax(-1)


def _log_probabilities(subject: Exportable, source: list[int], target: list[int]) -> list[float]:
    """Returns those of each target token after the first; in an encoder-decoder also of the end."""
    log_p_LV = _next_log_probabilities(subject, source, target)
    following = [*target[1:], *([int(Special.END)] if isinstance(subject.model, EncoderDecoder) else [])]
    return [float(log_p_LV[place, token]) for place, token in enumerate(following)]


def _engine_log_probabilities(
    subject: Exportable, engine: Any, names: dict[str, list[str]], pairs: Sequence[Pair]
) -> list[list[float]]:
    targets = [[names["decoder"][token] for token in target] for _, target in pairs]
    if not isinstance(subject.model, EncoderDecoder):
        scored = engine.score_batch([target if len(target) > 1 else target * 2 for target in targets])
        return [it.log_probs if len(target) > 1 else [] for it, target in zip(scored, targets, strict=True)]
    sources = [[names["encoder"][token] for token in source[:-1]] for source, _ in pairs]
    return [it.log_probs for it in engine.score_batch(sources, [target[1:] for target in targets])]


def _engine_greedy(
    subject: Exportable, engine: Any, names: dict[str, list[str]], pairs: Sequence[Pair]
) -> list[list[int]]:
    number = {name: token for token, name in enumerate(names["decoder"])}
    suppressed = [[names["decoder"][token]] for token in SUPPRESSED_IDS]
    options = {"beam_size": 1, "suppress_sequences": suppressed}
    if isinstance(subject.model, EncoderDecoder):
        sources = [[names["encoder"][token] for token in source[:-1]] for source, _ in pairs]
        limits = {"min_decoding_length": 0, "max_decoding_length": _room(subject)}
        found = engine.translate_batch(sources, **limits, **options)
        return [[number[token] for token in it.hypotheses[0]] for it in found]
    written = []
    for _, target in pairs:  # one by one: in a batch, results would contain the rest of longer prompts
        prompt = [[names["decoder"][token] for token in target]]
        found = engine.generate_batch(prompt, max_length=_room(subject), include_prompt_in_result=False, **options)
        written.append([number[token] for token in found[0].sequences[0]])
    return written


@torch.no_grad()
def _greedy(subject: Exportable, pairs: Sequence[Pair]) -> list[list[int]]:
    """Decodes each sequence greedily with the model."""
    model: Any = subject.model
    written = []
    for source, target in pairs:
        cross_attention = isinstance(model, EncoderDecoder)
        session = model.start(torch.tensor([source])) if cross_attention else model.start()
        read, found = [int(Special.START)] if cross_attention else target, list[int]()
        while len(found) < _room(subject):
            log_p_V = session.step(torch.tensor([read]), last=True)[0, -1]
            log_p_V[list(SUPPRESSED_IDS)] = float("-inf")
            token = int(log_p_V.argmax())
            if token == Special.END:
                break
            found.append(token)
            read = [token]
        written.append(found)
    return written


def _room(subject: Exportable) -> int:
    """Returns the most new tokens, within the length of the model."""
    return max(1, min(MAX_TOKENS, subject.length) - PROMPT_TOKENS)
