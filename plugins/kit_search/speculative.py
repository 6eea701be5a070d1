"""A cheap decoder guesses a few tokens, the real one checks them at once: what greedy search writes, in fewer steps.

Fast Inference from Transformers via Speculative Decoding (Leviathan et al. 2023), at temperature 0.
Shapes: L tokens read at once, V choices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from pydantic import PositiveInt
from torch import Tensor

from kit import Decoder, History, Hypothesis, KitError, Request, Search, SearchOptions, Writing
from kit_search.recallable import Recallable


class SpeculativeOptions(SearchOptions):
    """Greedy search with a draft."""

    use: Literal["speculative"] = "speculative"
    draft: str
    """The run of a smaller model with the same vocabulary, which guesses."""
    ahead: PositiveInt = 4
    """How many tokens it guesses before the model checks them."""


@dataclass
class _Text:
    """One text of the request while it is written."""

    number: int
    limit: int
    tokens: list[int] = field(default_factory=list)
    score: float = 0.0
    finished: bool = False
    closed: bool = False


class SpeculativeSearch(Search):
    """A guess is kept as long as the model would have written the same; the model's own next token comes for free."""

    options_type = SpeculativeOptions
    options: SpeculativeOptions
    needs_draft = True

    def run(self, decoder: Decoder, request: Request) -> list[list[Hypothesis]]:
        """One hypothesis for each text: the tokens and the score of greedy search."""
        if request.draft is None:
            raise KitError("speculative search needs a second decoder that guesses; give it as Request(draft=...)")
        writing = Writing(decoder, request)
        texts = going = [_Text(number, limit) for number, limit in enumerate(writing.limits_R.tolist())]
        model, draft = Recallable(decoder, writing.prompt), Recallable(request.draft, writing.prompt)
        for text, scores_V in zip(going, model.begin(), strict=True):
            _extend(text, [], scores_V[None], writing)
        draft.begin()
        staying = _open(going)
        model.leave(staying)
        draft.leave(staying)
        while staying:
            going = [going[place] for place in staying]
            guesses = self._guess(draft, going, writing)
            unread = [text.tokens[len(read) :] for text, read in zip(going, model.waiting, strict=True)]
            model.fork()
            scores = model.read(unread, [[*new, *guess] for new, guess in zip(unread, guesses, strict=True)])
            for text, new, guess, scores_LV in zip(going, unread, guesses, scores, strict=True):
                _extend(text, guess, scores_LV[len(new) - 1 :], writing)
            staying = _open(going)
            for each in (model, draft):
                each.settle([text.tokens for text in going], staying)
        return [[Hypothesis(text.tokens, text.score, text.finished)] for text in texts]

    def _guess(self, draft: Recallable, going: Sequence[_Text], writing: Writing) -> list[list[int]]:
        """What the draft would write next in each text."""
        guesses: list[list[int]] = [[] for _ in going]
        unread = [text.tokens[len(read) :] for text, read in zip(going, draft.waiting, strict=True)]
        draft.fork()
        scores = draft.read(unread, unread)
        for step in range(self.options.ahead):
            for text, guess, scores_LV in zip(going, guesses, scores, strict=True):
                room = len(text.tokens) + step < text.limit
                if room and len(guess) == step and writing.request.signs.end not in guess:
                    gain, token = _best(scores_LV[-1], text, [*text.tokens, *guess], writing)
                    guess += [token] if gain > float("-inf") else []
            new = [guess[step:] for guess in guesses]
            if step + 1 == self.options.ahead or not any(new):
                return guesses
            scores = draft.read([[] for _ in going], new)
        return guesses


def _extend(text: _Text, guess: list[int], scores_LV: Tensor, writing: Writing) -> None:
    """Write what the model would, as long as the guesses say the same, and one token more."""
    for place, scores_V in enumerate(scores_LV):
        gain, token = _best(scores_V, text, text.tokens, writing)
        if gain == float("-inf"):
            text.closed = True
            return
        text.score += gain
        text.finished = token == writing.request.signs.end
        if not text.finished:
            text.tokens.append(token)
        text.closed = text.finished or len(text.tokens) == text.limit
        if text.closed or place == len(guess) or token != guess[place]:
            return


def _best(scores_V: Tensor, text: _Text, tokens: list[int], writing: Writing) -> tuple[float, int]:
    """The best token after these, and its log-probability."""
    device = scores_V.device
    written = torch.tensor([tokens], dtype=torch.long, device=device)
    number, room = (torch.tensor([value], device=device) for value in (text.number, text.limit - len(tokens)))
    history = History(written, number, room, writing.request.signs.end)
    gain_R, token_R = writing.restrict(scores_V[None].clone(), history).best()
    return float(gain_R[0]), int(token_R[0])


def _open(texts: Sequence[_Text]) -> list[int]:
    return [place for place, text in enumerate(texts) if not text.closed]
