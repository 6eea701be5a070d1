"""Searches that break one law each."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from kit import Decoder, Hypothesis, Request, Search, SearchOptions, Writing


class BrokenSearchOptions(SearchOptions):
    use: Literal["broken"] = "broken"


class BrokenSearch(Search):
    """Greedy, as it should be."""

    options_type = BrokenSearchOptions
    breaks: tuple[str, ...] = ()

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        writing = Writing(decoder, request)
        choices = writing.begin()
        ended = torch.zeros(writing.rows, dtype=torch.bool)
        tokens: list[list[int]] = [[] for _ in range(writing.rows)]
        scores = [0.0] * writing.rows
        while True:
            gain_R, token_R = choices.best()
            for row in range(writing.rows):
                if not ended[row]:
                    scores[row] += float(gain_R[row])
                    ended[row] = token_R[row] == request.signs.end
                    tokens[row] += [] if ended[row] else [int(token_R[row])]
            if bool(ended.all()) or writing.length + 1 >= int(writing.limits_R.min()):
                return [[Hypothesis(*found)] for found in zip(tokens, scores, map(bool, ended.tolist()), strict=True)]
            choices = writing.write(token_R)


class WritesTooMuch(BrokenSearch):
    breaks = ("search.answers",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        found = super().run(decoder, request)
        return [[replace(it, tokens=[*it.tokens, 4, 4])] for (it,) in found]


class WritesPadding(BrokenSearch):
    breaks = ("search.signs",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        return super().run(decoder, replace(request, signs=replace(request.signs, never=())))


class MixesRows(BrokenSearch):
    """Puts the last row first, and forgets which text it belongs to."""

    breaks = ("search.alone",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        decoder.select(torch.arange(decoder.rows).flip(0))
        return super().run(decoder, request)
