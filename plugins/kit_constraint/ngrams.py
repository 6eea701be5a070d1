"""No run of tokens twice in a text: A Deep Reinforced Model for Abstractive Summarization (Paulus et al. 2017), 2.5.

Shapes: R rows, T tokens written, M runs that are complete, N tokens a run, V choices.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import Constraint, History, Options


class NgramsOptions(Options):
    """Blocks runs that were written before; the prompt does not count."""

    use: Literal["ngrams"] = "ngrams"
    size: PositiveInt = 3
    """How many tokens a run has; 1 lets no token come twice."""


class NgramsConstraint(Constraint):
    """Hides the tokens that would complete a run that the text already has."""

    options_type = NgramsOptions
    options: NgramsOptions

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """By comparing the newest tokens with every run."""
        size = self.options.size
        if history.length < size:
            return scores_RV
        run_RMN = history.tokens.unfold(1, size, 1)
        newest_R1N = history.tokens[:, None, history.length - size + 1 :]
        same_RM = (run_RMN[:, :, : size - 1] == newest_R1N).all(2)
        row, place = same_RM.nonzero(as_tuple=True)
        scores_RV[row, run_RMN[row, place, size - 1]] = float("-inf")
        return scores_RV
