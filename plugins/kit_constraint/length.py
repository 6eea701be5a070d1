"""Minimum and maximum length of sequences.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import NonNegativeInt, model_validator
from torch import Tensor

from kit import Constraint, History, Options, hide_token, only_token


class LengthOptions(Options):
    """Lengths in tokens, without the end token."""

    use: Literal["length"] = "length"
    minimum: NonNegativeInt = 0
    """No sequence ends before it has this many tokens."""
    maximum: NonNegativeInt | None = None
    """Sequences end after this many tokens. The `length` of a search cuts; here the end token counts in the score."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValueError(f"the maximum {self.maximum} is below the minimum {self.minimum}")
        return self


class LengthConstraint(Constraint):
    """Forbids the end token before the minimum, and all other tokens at the maximum."""

    options_type = LengthOptions
    options: LengthOptions

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Compares the number of tokens with the limits."""
        every_R = torch.ones_like(history.texts, dtype=torch.bool)
        if history.length < self.options.minimum:
            return hide_token(scores_RV, every_R, history.end)
        if self.options.maximum is not None and history.length >= self.options.maximum:
            return only_token(scores_RV, every_R, torch.full_like(history.texts, history.end))
        return scores_RV
