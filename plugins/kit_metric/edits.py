"""Errors counted by edit distance (Levenshtein 1966): units to insert, remove or exchange, over those wanted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kit import Answer
from kit_metric.answers import AnswerMetric


class EditMetric(AnswerMetric):
    """Of several references the nearest counts, and of those as near the longest; without one, all is too much."""

    is_share = True

    @abstractmethod
    def units(self, text: str) -> Sequence[str]:
        """What is counted in a text."""

    def judged(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """Errors, and units that were wanted."""
        return np.array([self._errors(answer) for answer in answers], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """0 for answers that are all right; more than 1 is possible."""
        return float(sums[0] / max(1.0, sums[-1]))

    def _errors(self, answer: Answer) -> tuple[int, int]:
        found = self.units(answer.text)
        sides = [self.units(reference) for reference in answer.references] or [""]
        distance, length = min((edit_distance(found, side), -len(side)) for side in sides)
        return distance, -length


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """The fewest insertions, removals and exchanges that make one of the other."""
    row = list(range(len(right) + 1))
    for place, item in enumerate(left, start=1):
        before, row[0] = row[0], place
        for column, other in enumerate(right, start=1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (item != other))
    return row[-1]
