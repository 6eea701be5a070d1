"""Repetition penalty: CTRL (Keskar et al. 2019), section 4.1, on log-probabilities.

Shapes: R rows, T tokens generated, V vocabulary.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from torch import Tensor

from kit import Constraint, History, Options


class RepetitionOptions(Options):
    """The paper divides logits, whose sign differs from model to model; log-probabilities are never positive."""

    use: Literal["repetition"] = "repetition"
    penalty: float = Field(default=1.2, gt=0.0)
    """The factor of the log-probability of tokens that were generated before; 1 changes nothing."""


class RepetitionConstraint(Constraint):
    """Multiplies the log-probability of earlier tokens by the penalty, once for each token."""

    options_type = RepetitionOptions
    options: RepetitionOptions

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Scales the log-probabilities of the tokens of each row."""
        if not history.length:
            return scores_RV
        earlier_RT = scores_RV.gather(1, history.tokens)
        return scores_RV.scatter(1, history.tokens, earlier_RT * self.options.penalty)
