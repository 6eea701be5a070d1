"""The fewest and the most tokens that a text may have.

Shapes: R rows, V choices.
"""

from __future__ import annotations

from typing import Literal, Self

import torch
from pydantic import NonNegativeInt, model_validator
from torch import Tensor

from kit import Constraint, History, Options, hide_token, only_token


class LengthOptions(Options):
    """Lengths do not count the end token."""

    use: Literal["length"] = "length"
    minimum: NonNegativeInt = 0
    """No text ends before it has this many tokens."""
    maximum: NonNegativeInt | None = None
    """A text that has this many tokens ends. A search's own `length` cuts; here the end token counts in the score."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.maximum is not None and self.maximum < self.minimum:
            raise ValueError(f"the maximum {self.maximum} is below the minimum {self.minimum}")
        return self


class LengthConstraint(Constraint):
    """Hides the end until the minimum, and all but the end at the maximum."""

    options_type = LengthOptions
    options: LengthOptions

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By how many tokens are written."""
        every_R = torch.ones_like(history.texts, dtype=torch.bool)
        if history.length < self.options.minimum:
            return hide_token(scores_RV, every_R, history.end)
        if self.options.maximum is not None and history.length >= self.options.maximum:
            return only_token(scores_RV, every_R, torch.full_like(history.texts, history.end))
        return scores_RV
