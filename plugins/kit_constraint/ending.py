"""Every text ends with the given tokens and the end token, also one that would be cut.

Shapes: R rows, T tokens written, N tokens of the ending, V choices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import Constraint, Encode, History, Options, Phrase, hide_token, only_token
from kit_constraint.vocabulary import unknown_tokens


class EndingOptions(Options):
    """How texts end."""

    use: Literal["ending"] = "ending"
    tokens: Phrase = Field(default_factory=list)
    """A text or the numbers of its tokens; none: only the end token itself is forced where a text would be cut."""


class EndingConstraint(Constraint):
    """The end is hidden unless the ending stands before it; where the room runs out, the ending is all that is left."""

    options_type = EndingOptions
    options: EndingOptions

    def __init__(self, options: EndingOptions) -> None:
        super().__init__(options)
        self.tokens: list[int] | None = None

    def prepare(self, encode: Encode | None) -> None:
        """Text to tokens."""
        self.tokens = self.encoded([self.options.tokens], encode)[0]

    def objections(self, vocabulary: int) -> Iterator[str]:
        """Tokens that do not exist."""
        yield from unknown_tokens([self._tokens_of_end()], vocabulary)

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By the newest tokens, and by the room that is left."""
        device = scores_RV.device
        ending = torch.tensor([*self._tokens_of_end(), history.end], device=device)
        needed = ending.shape[0]
        must_R = history.room <= needed
        if needed > 1:
            newest_RN = history.tokens[:, max(0, history.length - needed + 1) :]
            missing_R = torch.ones_like(must_R)
            if history.length >= needed - 1:
                missing_R = (newest_RN != ending[:-1]).any(1)
            scores_RV = hide_token(scores_RV, missing_R & ~must_R, history.end)
        token_R = ending[(needed - history.room).clamp(0, needed - 1)]
        return only_token(scores_RV, must_R, token_R)

    def _tokens_of_end(self) -> list[int]:
        if self.tokens is None:
            self.prepare(None)
        assert self.tokens is not None
        return self.tokens
