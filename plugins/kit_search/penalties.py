"""How the score of a text depends on its length, by name.

length: fairseq, Hugging Face and CTranslate2 divide by length^alpha; gnmt: Wu et al. 2016, section 7, without coverage.
"""

from __future__ import annotations

from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt

from kit import SearchOptions

Penalty = Literal["none", "length", "gnmt"]


class RankedOptions(SearchOptions):
    """What searches that compare finished texts have in common."""

    penalty: Penalty = "length"
    """What a log-probability is divided by, the end token counted in the length: nothing (none), length^alpha (length)
    or ((5 + length) / 6)^alpha (gnmt)."""
    alpha: NonNegativeFloat = 1.0
    """How much length counts: 0 as `none`; 1 under `length` gives the mean of a token."""
    nbest: PositiveInt = 1
    """How many hypotheses to give for each text, the best first; there may be fewer."""

    def ranked(self, log_probability: float, length: int) -> float:
        """The score of a text of this many tokens."""
        return log_probability / self.divisor(length)

    def divisor(self, length: int) -> float:
        """What a log-probability is divided by."""
        if self.penalty == "none":
            return 1.0
        return float((length if self.penalty == "length" else (5 + length) / 6) ** self.alpha)
