"""Searches that break one law each."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch

from kit import Decoder, GenerationState, Hypothesis, Request, Search, SearchOptions


class BrokenSearchOptions(SearchOptions):
    use: Literal["broken"] = "broken"


class BrokenSearch(Search):
    """Greedy, as it should be."""

    options_type = BrokenSearchOptions
    breaks: tuple[str, ...] = ()

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        state = GenerationState(decoder, request)
        log_probs = state.prefill()
        ended = torch.zeros(state.rows, dtype=torch.bool)
        tokens: list[list[int]] = [[] for _ in range(state.rows)]
        scores = [0.0] * state.rows
        while True:
            gain_R, token_R = log_probs.best()
            for row in range(state.rows):
                if not ended[row]:
                    scores[row] += float(gain_R[row])
                    ended[row] = token_R[row] == request.special_tokens.end
                    tokens[row] += [] if ended[row] else [int(token_R[row])]
            if bool(ended.all()) or state.length + 1 >= int(state.limits_R.min()):
                return [[Hypothesis(*found)] for found in zip(tokens, scores, map(bool, ended.tolist()), strict=True)]
            log_probs = state.step(token_R)


class WritesTooMuch(BrokenSearch):
    breaks = ("search.hypotheses",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        found = super().run(decoder, request)
        return [[replace(it, tokens=[*it.tokens, 4, 4])] for (it,) in found]


class WritesPadding(BrokenSearch):
    breaks = ("search.special_tokens",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        return super().run(decoder, replace(request, special_tokens=replace(request.special_tokens, suppressed=())))


class MixesRows(BrokenSearch):
    """Puts the last row first, and forgets which text it belongs to."""

    breaks = ("search.batch_invariance",)

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        decoder.reorder(torch.arange(decoder.rows).flip(0))
        return super().run(decoder, request)
