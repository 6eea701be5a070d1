"""What a beam has finished: the best so far, and by which rule that is enough."""

from __future__ import annotations

from bisect import insort
from typing import Literal

from kit import Hypothesis
from kit_search.penalties import RankedOptions

Stop = Literal["first", "full", "likely", "certain"]


class Finished:
    """The finished hypotheses of one beam of one text, as many as the beam is wide."""

    def __init__(self, options: RankedOptions, size: int, stop: Stop) -> None:
        self.options = options
        self.size = size
        self.stop = stop
        self.best: list[Hypothesis] = []
        """The best first."""
        self.closed = False
        """Whether nothing is added any more."""

    def add(self, tokens: list[int], log_probability: float, finished: bool) -> None:
        """A hypothesis that ended, or was cut; beyond the width of the beam the worst is forgotten."""
        length = len(tokens) + finished
        hypothesis = Hypothesis(tokens, self.options.ranked(log_probability, max(1, length)), finished)
        insort(self.best, hypothesis, key=lambda each: -each.score)
        del self.best[self.size :]

    def close_if_enough(self, live: float, length: int, limit: int) -> None:
        """Stop adding, by the rule, or because nothing more can come.

        live: the best log-probability among those still being written; length: how many tokens they have; limit: how
        many they may have.
        """
        over = length == limit or live == float("-inf")
        self.closed = self.closed or over or self._enough(live, length, limit)

    def _enough(self, live: float, length: int, limit: int) -> bool:
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
