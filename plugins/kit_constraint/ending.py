"""Forced endings: every sequence ends with the given tokens and the end token, also at the length limit.

Shapes: R rows, N tokens of the ending, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import History, Options, Phrase, hide_token, only_token
from kit_constraint.phrases import PhraseConstraint


class EndingOptions(Options):
    """The ending of every sequence."""

    use: Literal["ending"] = "ending"
    tokens: Phrase = Field(default_factory=list)
    """A text or token ids; left out, only the end token is forced at the length limit."""


class EndingConstraint(PhraseConstraint):
    """Forbids the end token unless the ending precedes it; near the length limit it allows the ending alone."""

    options_type = EndingOptions
    options: EndingOptions

    def named(self) -> Sequence[Phrase]:
        """Returns the ending."""
        return [self.options.tokens]

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Compares the newest tokens with the ending, and its length with the room that is left."""
        device = scores_RV.device
        ending = torch.tensor([*self.phrases[0], history.end], device=device)
        needed = ending.shape[0]
        forced_R = history.room <= needed
        if needed > 1:
            newest_RN = history.tokens[:, max(0, history.length - needed + 1) :]
            missing_R = torch.ones_like(forced_R)
            if history.length >= needed - 1:
                missing_R = (newest_RN != ending[:-1]).any(1)
            scores_RV = hide_token(scores_RV, missing_R & ~forced_R, history.end)
        token_R = ending[(needed - history.room).clamp(0, needed - 1)]
        return only_token(scores_RV, forced_R, token_R)
