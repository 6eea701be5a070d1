"""Required phrases: Lexically Constrained Decoding (Hokamp & Liu 2017).

The grid beam search of the paper keeps a beam for each number of words that are met. Here the search is unchanged: the
end token is forbidden until all phrases are there, and near the length limit only missing phrases are allowed.
Shapes: R rows, T tokens generated, M n-grams of a row, N tokens of a phrase, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Encode, History, KitError, Options, Phrase, hide_token
from kit_constraint.phrases import PhraseConstraint


class RequiredOptions(Options):
    """Phrases that every sequence contains at least once, in any order."""

    use: Literal["required"] = "required"
    phrases: list[Phrase] = Field(min_length=1)
    """Texts or lists of token ids: [[17], [8, 9]] requires the token 17, and 9 right after 8."""
    within: PositiveInt | None = None
    """The number of tokens within which all phrases occur; left out, the limit of the search. Set it
    beside `length` with a maximum and beside `ending`, which need room too."""


class RequiredConstraint(PhraseConstraint):
    """Forbids the end token while a phrase is missing, and tokens after which the rest would not fit.

    Phrases count as if they shared no tokens, so phrases may be forced a little early. A sequence with too little room
    from the start gets as many phrases as fit, and is not finished.
    """

    options_type = RequiredOptions
    options: RequiredOptions
    examples = ({"phrases": [[9], [7, 8, 6], [10, 11]]}, {"phrases": ["ab", [9, 9]], "within": 6})

    allows_empty = False

    def named(self) -> Sequence[Phrase]:
        """Returns the required phrases."""
        return self.options.phrases

    def prepare(self, encode: Encode | None) -> None:
        """Encodes the phrases and drops those that are part of another one."""
        super().prepare(encode)
        kept: list[list[int]] = []
        for phrase in sorted(self.phrases, key=len, reverse=True):
            if not any(_is_part(phrase, of=longer) for longer in kept):
                kept.append(phrase)
        self._phrases = kept

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Compares the tokens of missing phrases with the room that is left."""
        missing = [(phrase, ~_occurs(phrase, history.tokens)) for phrase in self.phrases]
        if any(history.end in phrase for phrase, _ in missing):
            raise KitError(f"the constraint 'required' names the token {history.end}, which ends a text; leave it out")
        needed_R = sum((len(phrase) * missing_R for phrase, missing_R in missing), torch.zeros_like(history.room))
        scores_RV = hide_token(scores_RV, needed_R > 0, history.end)
        left_R = history.room - 2  # after the next token and the end token
        if self.options.within is not None:
            left_R = left_R.clamp(max=self.options.within - history.length - 1)
        short_R = (needed_R - left_R) * (needed_R > 0)
        if not bool((short_R > 0).any()):
            return scores_RV
        gain_RV = self._gains(scores_RV, history.tokens, missing)
        wanted_R = torch.minimum(short_R, gain_RV.amax(1))
        return scores_RV.masked_fill(gain_RV < wanted_R[:, None], float("-inf"))

    def _gains(self, scores_RV: Tensor, tokens_RT: Tensor, missing: list[tuple[list[int], Tensor]]) -> Tensor:
        """Counts the required tokens that each next token brings: of phrases it completes, and of the one it continues.

        A begun phrase only counts for the longest one, so that its next token always counts too.
        """
        completed_RV = torch.zeros_like(scores_RV, dtype=torch.long)
        begun_RV = torch.zeros_like(completed_RV)
        for phrase, missing_R in missing:
            completing_R = missing_R & _ends_with(phrase[:-1], tokens_RT)
            completed_RV[:, phrase[-1]] += len(phrase) * completing_R
            for index, token in enumerate(phrase[:-1]):
                continuing_R = missing_R & _ends_with(phrase[:index], tokens_RT)
                if token == phrase[-1]:
                    continuing_R = continuing_R & ~completing_R
                begun_RV[:, token] = torch.maximum(begun_RV[:, token], (index + 1) * continuing_R)
        return completed_RV + begun_RV


def _is_part(phrase: list[int], of: list[int]) -> bool:
    return any(of[start : start + len(phrase)] == phrase for start in range(len(of) - len(phrase) + 1))


def _occurs(phrase: list[int], tokens_RT: Tensor) -> Tensor:
    """Returns whether each row contains a phrase, [R]."""
    if tokens_RT.shape[1] < len(phrase):
        return torch.zeros(tokens_RT.shape[0], dtype=torch.bool, device=tokens_RT.device)
    ngram_RMN = tokens_RT.unfold(1, len(phrase), 1)
    return (ngram_RMN == torch.tensor(phrase, device=tokens_RT.device)).all(2).any(1)


def _ends_with(phrase: list[int], tokens_RT: Tensor) -> Tensor:
    """Returns whether each row ends with a phrase, [R]; true for an empty one."""
    length = tokens_RT.shape[1]
    if length < len(phrase):
        return torch.zeros(tokens_RT.shape[0], dtype=torch.bool, device=tokens_RT.device)
    newest_RN = tokens_RT[:, length - len(phrase) :]
    return (newest_RN == torch.tensor(phrase, dtype=torch.long, device=tokens_RT.device)).all(1)
