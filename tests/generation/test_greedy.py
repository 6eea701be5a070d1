"""Greedy decoding writes what a plain loop over whole texts writes, row by row."""

from __future__ import annotations

import pytest
import torch
from models.tiny_models import KIT, build, random_tokens

from kit import SequenceGenerator, Special, TokenBatch
from kit_head.language import LanguageOptions


def by_hand(model, source, first: list[int], most: int) -> list[int]:
    written: list[int] = []
    while len(written) < most:
        ids = torch.tensor([[*first, *written]])
        scores = (model(source, ids) if source is not None else model(ids))[0, -1].clone()
        scores[[Special.PADDING, Special.START, Special.MASK, Special.SEPARATOR]] = float("-inf")
        token = int(scores.argmax())
        if token == Special.END:
            break
        written.append(token)
    return written


def greedy(session, first: TokenBatch, limits: int | list[int]) -> list[list[int]]:
    """What the default search writes."""
    return [found.tokens for (found,) in SequenceGenerator.build(None, KIT.registry).generate(session, limits, first)]


def lively(family: str):
    """A model whose answers end at different lengths."""
    model = build(family, vocabulary=12, tie="none", head=LanguageOptions(bias=True))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
        model.head.bias[Special.END] = 10 if family == "decoder" else 31
    return model


def test_each_row_is_written_as_if_alone():
    model, source = lively("encoder-decoder"), random_tokens(5, 2, 7, 3, 4, 6, vocabulary=12)
    start = TokenBatch(torch.full((6, 1), int(Special.START)))
    found = greedy(model.start(source), start, 15)
    lengths = (5, 2, 7, 3, 4, 6)
    wanted = [by_hand(model, source.ids[row : row + 1, :n], [int(Special.START)], 15) for row, n in enumerate(lengths)]
    assert found == wanted
    assert len({len(row) for row in found}) > 1, "rows that end at different steps are what is tested"


@pytest.mark.parametrize("limits", [15, [1, 6, 3]])
def test_prompts_of_different_lengths_and_limits(limits):
    model, prompts = lively("decoder"), random_tokens(3, 5, 1, vocabulary=12)
    found = greedy(model.start(), prompts, limits)
    for row, (size, written) in enumerate(zip((3, 5, 1), found, strict=True)):
        most = limits if isinstance(limits, int) else limits[row]
        assert written == by_hand(model, None, prompts.ids[row, :size].tolist(), most)


def test_special_tokens_are_never_written():
    model = lively("decoder")
    found = greedy(model.start(), random_tokens(*[2] * 30, vocabulary=12), 20)
    assert not {0, 1, 4, 5} & {token for row in found for token in row}
