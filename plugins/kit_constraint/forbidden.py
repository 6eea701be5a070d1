"""Tokens and runs of tokens that no text may have.

Shapes: R rows, T tokens written, V choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import Constraint, Encode, History, KitError, Options, Phrase, hide_token
from kit_constraint.vocabulary import unknown_tokens


class ForbiddenOptions(Options):
    """What is not to be written."""

    use: Literal["forbidden"] = "forbidden"
    phrases: list[Phrase] = Field(min_length=1)
    """Texts, or the numbers of their tokens: [[17], [8, 9]] forbids the token 17, and 9 right after 8."""


class ForbiddenConstraint(Constraint):
    """Hides the token that would complete a forbidden phrase."""

    options_type = ForbiddenOptions
    options: ForbiddenOptions
    examples = ({"phrases": [[9], [7, 8], "ab"]},)

    def __init__(self, options: ForbiddenOptions) -> None:
        super().__init__(options)
        self.phrases: list[list[int]] | None = None

    def prepare(self, encode: Encode | None) -> None:
        """Texts to tokens."""
        self.phrases = self.encoded(self.options.phrases, encode)
        if not all(self.phrases):
            raise KitError("the constraint 'forbidden' names an empty phrase, which every text has; leave it out")

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Tokens that do not exist."""
        yield from unknown_tokens(self._phrases(), vocabulary)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By the newest tokens."""
        for *before, last in self._phrases():
            if len(before) > history.length:
                continue
            newest_RN = history.tokens[:, history.length - len(before) :]
            same_R = (newest_RN == torch.tensor(before, dtype=torch.long, device=newest_RN.device)).all(1)
            scores_RV = hide_token(scores_RV, same_R, last)
        return scores_RV

    def _phrases(self) -> list[list[int]]:
        if self.phrases is None:
            self.prepare(None)
        assert self.phrases is not None
        return self.phrases
