"""Finished hypotheses: their length-normalised scores, and the best of a beam.

length: fairseq, Hugging Face and CTranslate2 divide by length^alpha; gnmt: Wu et al. 2016, section 7, without coverage.
"""

from __future__ import annotations

from bisect import insort
from typing import Literal

from pydantic import NonNegativeFloat, PositiveInt

from kit import Hypothesis, SearchOptions

Penalty = Literal["none", "length", "gnmt"]
Stop = Literal["first", "full", "likely", "certain"]


class RankedOptions(SearchOptions):
    """Options of searches that compare finished hypotheses."""

    penalty: Penalty = "length"
    """What a log-probability is divided by, with the end token counted in the length: nothing (none), length^alpha
    (length) or ((5 + length) / 6)^alpha (gnmt)."""
    alpha: NonNegativeFloat = 1.0
    """The exponent of the penalty: 0 is as `none`; 1 under `length` gives the mean log-probability of a token."""
    nbest: PositiveInt = 1
    """How many hypotheses to give for each text, the best first; there may be fewer."""

    def score(self, log_probability: float, length: int) -> float:
        """Returns the score of a hypothesis of this many tokens."""
        return log_probability / self.divisor(length)

    def divisor(self, length: int) -> float:
        """Returns what the log-probability of a hypothesis of this many tokens is divided by."""
        if self.penalty == "none":
            return 1.0
        return float((length if self.penalty == "length" else (5 + length) / 6) ** self.alpha)


class FinishedHypotheses:
    """The finished hypotheses of one beam of one sequence, at most as many as the beam is wide."""

    def __init__(self, options: RankedOptions, size: int, stop: Stop) -> None:
        self.options = options
        self.size = size
        self.stop = stop
        self.best: list[Hypothesis] = []
        """The hypotheses, the best first."""
        self.closed = False
        """Whether no more are added."""

    def add(self, tokens: list[int], log_probability: float, finished: bool) -> None:
        """Adds a hypothesis that ended or was cut, and drops the worst beyond the width of the beam."""
        length = len(tokens) + finished
        hypothesis = Hypothesis(tokens, self.options.score(log_probability, max(1, length)), finished)
        insort(self.best, hypothesis, key=lambda each: -each.score)
        del self.best[self.size :]

    def close_if_enough(self, live: float, length: int, limit: int) -> None:
        """Closes the beam by its stopping rule, or because nothing more can follow.

        live: the best log-probability of the unfinished beams; length: their number of tokens; limit: the most tokens.
        """
        over = length == limit or live == float("-inf")
        self.closed = self.closed or over or self._has_enough(live, length, limit)

    def _has_enough(self, live: float, length: int, limit: int) -> bool:
        if self.stop == "first":
            return bool(self.best)
        if len(self.best) < self.size:
            return False
        if self.stop == "full":
            return True
        divisor = self.options.divisor(length)
        if self.stop == "certain":
            divisor = max(divisor, self.options.divisor(limit))
        return live / divisor <= self.best[-1].score
