"""Forbidden phrases, which no sequence contains (`bad_words_ids`).

Shapes: R rows, N tokens of a phrase, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import History, Options, Phrase, hide_token
from kit_constraint.phrases import PhraseConstraint


class ForbiddenOptions(Options):
    """Phrases that are not generated."""

    use: Literal["forbidden"] = "forbidden"
    phrases: list[Phrase] = Field(min_length=1)
    """Texts or lists of token ids: [[17], [8, 9]] forbids the token 17, and 9 right after 8."""


class ForbiddenConstraint(PhraseConstraint):
    """Forbids the token that would complete a phrase."""

    options_type = ForbiddenOptions
    options: ForbiddenOptions
    examples = ({"phrases": [[9], [7, 8], "ab"]},)
    allows_empty = False

    def named(self) -> Sequence[Phrase]:
        """Returns the forbidden phrases."""
        return self.options.phrases

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Compares the newest tokens with all but the last of each phrase."""
        for *before, last in self.phrases:
            if len(before) > history.length:
                continue
            newest_RN = history.tokens[:, history.length - len(before) :]
            same_R = (newest_RN == torch.tensor(before, dtype=torch.long, device=newest_RN.device)).all(1)
            scores_RV = hide_token(scores_RV, same_R, last)
        return scores_RV
