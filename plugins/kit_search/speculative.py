"""Speculative decoding: a draft model proposes a few tokens, which the model checks in one step.

Fast Inference from Transformers via Speculative Decoding (Leviathan et al. 2023), at temperature 0: the result is that
of greedy search.
Shapes: L tokens read at once, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Decoder, GenerationState, History, Hypothesis, KitError, Request, Search, SearchOptions
from kit_search.rollback import RollbackDecoder


class SpeculativeOptions(SearchOptions):
    """Greedy search with a draft model."""

    use: Literal["speculative"] = "speculative"
    draft: str
    """The run of a smaller model with the same vocabulary."""
    ahead: PositiveInt = 4
    """The number of tokens that are drafted before the model checks them."""


@dataclass
class _Sequence:
    """One sequence while it is generated."""

    number: int
    limit: int
    tokens: list[int] = field(default_factory=list)
    score: float = 0.0
    finished: bool = False
    closed: bool = False


class SpeculativeSearch(Search):
    """Accepts drafted tokens as long as they are the most probable of the model; its own next token comes for free."""

    options_type = SpeculativeOptions
    options: SpeculativeOptions
    needs_draft = True

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sequence: the tokens and the score of greedy search."""
        if request.draft is None:
            raise KitError("speculative search needs a second decoder that drafts; give it as Request(draft=...)")
        state = GenerationState(decoder, request)
        sequences = unfinished = [_Sequence(number, limit) for number, limit in enumerate(state.limits_R.tolist())]
        model, draft = RollbackDecoder(decoder, state.prompt), RollbackDecoder(request.draft, state.prompt)
        for sequence, logits_V in zip(unfinished, model.prefill(), strict=True):
            _extend(sequence, [], logits_V[None], state)
        draft.prefill()
        kept = _unfinished_indices(unfinished)
        model.leave(kept)
        draft.leave(kept)
        while kept:
            unfinished = [unfinished[index] for index in kept]
            drafts = self._draft(draft, unfinished, state)
            new_tokens = [
                sequence.tokens[len(read) :] for sequence, read in zip(unfinished, model.waiting, strict=True)
            ]
            model.fork()
            logits = model.read(new_tokens, [[*new, *drafted] for new, drafted in zip(new_tokens, drafts, strict=True)])
            for sequence, new, drafted, logits_LV in zip(unfinished, new_tokens, drafts, logits, strict=True):
                _extend(sequence, drafted, logits_LV[len(new) - 1 :], state)
            kept = _unfinished_indices(unfinished)
            for each in (model, draft):
                each.settle([sequence.tokens for sequence in unfinished], kept)
        return [[Hypothesis(sequence.tokens, sequence.score, sequence.finished)] for sequence in sequences]

    def _draft(
        self, draft: RollbackDecoder, unfinished: Sequence[_Sequence], state: GenerationState
    ) -> list[list[int]]:
        """Drafts the next tokens of each sequence."""
        drafts: list[list[int]] = [[] for _ in unfinished]
        new_tokens = [sequence.tokens[len(read) :] for sequence, read in zip(unfinished, draft.waiting, strict=True)]
        draft.fork()
        logits = draft.read(new_tokens, new_tokens)
        for step in range(self.options.ahead):
            for sequence, drafted, logits_LV in zip(unfinished, drafts, logits, strict=True):
                room = len(sequence.tokens) + step < sequence.limit
                if room and len(drafted) == step and state.request.special_tokens.end not in drafted:
                    gain, token = _best(logits_LV[-1], sequence, [*sequence.tokens, *drafted], state)
                    drafted += [token] if gain > float("-inf") else []
            new = [drafted[step:] for drafted in drafts]
            if step + 1 == self.options.ahead or not any(new):
                return drafts
            logits = draft.read([[] for _ in unfinished], new)
        return drafts


def _extend(sequence: _Sequence, drafted: list[int], logits_LV: Tensor, state: GenerationState) -> None:
    """Appends the most probable tokens as long as the draft has the same, and one more."""
    for index, logits_V in enumerate(logits_LV):
        gain, token = _best(logits_V, sequence, sequence.tokens, state)
        if gain == float("-inf"):
            sequence.closed = True
            return
        sequence.score += gain
        sequence.finished = token == state.request.special_tokens.end
        if not sequence.finished:
            sequence.tokens.append(token)
        sequence.closed = sequence.finished or len(sequence.tokens) == sequence.limit
        if sequence.closed or index == len(drafted) or token != drafted[index]:
            return


def _best(logits_V: Tensor, sequence: _Sequence, tokens: list[int], state: GenerationState) -> tuple[float, int]:
    """Returns the log-probability and the id of the most probable token after these."""
    device = logits_V.device
    tokens_1T = torch.tensor([tokens], dtype=torch.long, device=device)
    number, room = (torch.tensor([value], device=device) for value in (sequence.number, sequence.limit - len(tokens)))
    history = History(tokens_1T, number, room, state.request.special_tokens.end)
    gain_R, token_R = state.process_logits(logits_V[None].clone(), history).best()
    return float(gain_R[0]), int(token_R[0])


def _unfinished_indices(sequences: Sequence[_Sequence]) -> list[int]:
    return [index for index, sequence in enumerate(sequences) if not sequence.closed]
