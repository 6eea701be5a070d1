"""N-gram blocking: A Deep Reinforced Model for Abstractive Summarization (Paulus et al. 2017), section 2.5.

Shapes: R rows, M n-grams of a row, N tokens of an n-gram, V vocabulary.
"""

from __future__ import annotations

from typing import Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import Constraint, History, Options


class NgramsOptions(Options):
    """Blocks n-grams that were generated before; the prompt does not count."""

    use: Literal["ngrams"] = "ngrams"
    size: PositiveInt = 3
    """The size of n-grams; with 1 no token occurs twice."""


class NgramsConstraint(Constraint):
    """Forbids tokens that would complete an n-gram that the sequence already has."""

    options_type = NgramsOptions
    options: NgramsOptions

    def apply(self, scores_RV: Tensor, history: History) -> Tensor:
        """Compares the newest tokens with the beginning of every n-gram."""
        size = self.options.size
        if history.length < size:
            return scores_RV
        ngram_RMN = history.tokens.unfold(1, size, 1)
        newest_R1N = history.tokens[:, None, history.length - size + 1 :]
        same_RM = (ngram_RMN[:, :, : size - 1] == newest_R1N).all(2)
        row, start = same_RM.nonzero(as_tuple=True)
        scores_RV[row, ngram_RMN[row, start, size - 1]] = float("-inf")
        return scores_RV
