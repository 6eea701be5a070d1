"""Tokens and phrases that every text must have somewhere: Lexically Constrained Decoding (Hokamp & Liu 2017).

The paper's search keeps a beam for each number of words that are written. Here the search stays as it is: the end is
hidden until everything is there, and where the room runs out, what is missing is all that may be written.
Shapes: R rows, T tokens written, N tokens of a phrase, V choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Constraint, Encode, History, KitError, Options, Phrase, hide_token
from kit_constraint.vocabulary import unknown_tokens


class RequiredOptions(Options):
    """What is to be written, in any order; once is enough."""

    use: Literal["required"] = "required"
    phrases: list[Phrase] = Field(min_length=1)
    """Texts, or the numbers of their tokens: [[17], [8, 9]] wants the token 17, and 9 right after 8."""
    within: PositiveInt | None = None
    """How many tokens a text may have until all is there; left out, as many as a search lets it have before its end.
    Say it beside `length` with a maximum, and beside `ending`: they need room too."""


class RequiredConstraint(Constraint):
    """Hides the end while a phrase is missing, and tokens after which there would be too little room for the rest.

    Phrases are counted as if they shared no tokens, so the last moment may come a little early. A text with too little
    room from the start gets as much as goes in, and is not finished.
    """

    options_type = RequiredOptions
    options: RequiredOptions
    examples = ({"phrases": [[9], [7, 8, 6], [10, 11]]}, {"phrases": ["ab", [9, 9]], "within": 6})

    def __init__(self, options: RequiredOptions) -> None:
        super().__init__(options)
        self.phrases: list[list[int]] | None = None

    def prepare(self, encode: Encode | None) -> None:
        """Texts to tokens; a phrase that is part of another is there when that one is."""
        found = self.encoded(self.options.phrases, encode)
        if not all(found):
            raise KitError("the constraint 'required' names an empty phrase, which every text has; leave it out")
        longest_first = sorted(found, key=len, reverse=True)
        self.phrases = []
        for phrase in longest_first:
            if not any(_is_part(phrase, of=kept) for kept in self.phrases):
                self.phrases.append(phrase)

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Tokens that do not exist."""
        yield from unknown_tokens(self._phrases(), vocabulary)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By what is missing, and by the room that is left."""
        missing = [(phrase, ~_occurs(phrase, history.tokens)) for phrase in self._phrases()]
        if any(history.end in phrase for phrase, _ in missing):
            raise KitError(f"the constraint 'required' names the token {history.end}, which ends a text; leave it out")
        needed_R = sum((len(phrase) * missing_R for phrase, missing_R in missing), torch.zeros_like(history.room))
        scores_RV = hide_token(scores_RV, needed_R > 0, history.end)
        left_R = history.room - 2  # after the next token and the end
        if self.options.within is not None:
            left_R = left_R.clamp(max=self.options.within - history.length - 1)
        short_R = (needed_R - left_R) * (needed_R > 0)
        if not bool((short_R > 0).any()):
            return scores_RV
        gain_RV = self._gains(scores_RV, history.tokens, missing)
        wanted_R = torch.minimum(short_R, gain_RV.amax(1))
        return scores_RV.masked_fill(gain_RV < wanted_R[:, None], float("-inf"))

    def _gains(self, scores_RV: Tensor, tokens_RT: Tensor, missing: list[tuple[list[int], Tensor]]) -> Tensor:
        """How many of the tokens that are needed each choice would bring: phrases it completes, and the one it is in.

        What is begun counts for one phrase alone, the longest, so that going on with it always brings the next.
        """
        whole_RV = torch.zeros_like(scores_RV, dtype=torch.long)
        begun_RV = torch.zeros_like(whole_RV)
        for phrase, missing_R in missing:
            completing_R = missing_R & _ends_with(phrase[:-1], tokens_RT)
            whole_RV[:, phrase[-1]] += len(phrase) * completing_R
            for place, token in enumerate(phrase[:-1]):
                going_on_R = missing_R & _ends_with(phrase[:place], tokens_RT)
                if token == phrase[-1]:
                    going_on_R = going_on_R & ~completing_R
                begun_RV[:, token] = torch.maximum(begun_RV[:, token], (place + 1) * going_on_R)
        return whole_RV + begun_RV

    def _phrases(self) -> list[list[int]]:
        if self.phrases is None:
            self.prepare(None)
        assert self.phrases is not None
        return self.phrases


def _is_part(phrase: list[int], of: list[int]) -> bool:
    return any(of[start : start + len(phrase)] == phrase for start in range(len(of) - len(phrase) + 1))


def _occurs(phrase: list[int], tokens_RT: Tensor) -> Tensor:
    """Which rows have a phrase."""
    if tokens_RT.shape[1] < len(phrase):
        return torch.zeros(tokens_RT.shape[0], dtype=torch.bool, device=tokens_RT.device)
    run_RMN = tokens_RT.unfold(1, len(phrase), 1)
    return (run_RMN == torch.tensor(phrase, device=tokens_RT.device)).all(2).any(1)


def _ends_with(phrase: list[int], tokens_RT: Tensor) -> Tensor:
    """Which rows wrote a phrase last; all of them, where it is empty."""
    length = tokens_RT.shape[1]
    if length < len(phrase):
        return torch.zeros(tokens_RT.shape[0], dtype=torch.bool, device=tokens_RT.device)
    newest_RN = tokens_RT[:, length - len(phrase) :]
    return (newest_RN == torch.tensor(phrase, dtype=torch.long, device=tokens_RT.device)).all(1)
