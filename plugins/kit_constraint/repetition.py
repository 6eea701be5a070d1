"""Tokens that were written before become less likely: CTRL (Keskar et al. 2019), section 4.1, on log-probabilities.

Shapes: R rows, T tokens written, V choices.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from kit import Constraint, History, Options


class RepetitionOptions(Options):
    """The paper divides raw scores, whose sign differs from model to model; log-probabilities are never positive."""

    use: Literal["repetition"] = "repetition"
    penalty: float = Field(default=1.2, gt=0.0)
    """What the log-probability of a token that was written before is multiplied by; 1 changes nothing."""


class RepetitionConstraint(Constraint):
    """Counts a token once, however often it was written."""

    options_type = RepetitionOptions
    options: RepetitionOptions

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By what is written."""
        if not history.length:
            return scores_RV
        written_RT = scores_RV.gather(1, history.tokens)
        return scores_RV.scatter(1, history.tokens, written_RT * self.options.penalty)
