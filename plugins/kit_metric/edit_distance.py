"""Error rates by edit distance (Levenshtein 1966): insertions, deletions and substitutions over reference units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kit import Answer
from kit_metric.answers import AnswerMetric


class EditDistanceMetric(AnswerMetric):
    """Error rate to the nearest reference, of equally near ones the longest; without references, to an empty one."""

    is_fraction = True

    @abstractmethod
    def units(self, text: str) -> Sequence[str]:
        """The units of a text, such as words or characters."""

    def statistics(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, 2]: the edit distance, and the length of the reference."""
        return np.array([self._errors(answer) for answer in answers], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """The error rate: 0 if all answers are correct; it may exceed 1."""
        return float(sums[0] / max(1.0, sums[-1]))

    def _errors(self, answer: Answer) -> tuple[int, int]:
        hypothesis = self.units(answer.text)
        references = [self.units(reference) for reference in answer.references] or [""]
        distance, length = min((edit_distance(hypothesis, each), -len(each)) for each in references)
        return distance, -length


def edit_distance(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """The minimum number of insertions, deletions and substitutions between two sequences (Levenshtein distance)."""
    row = list(range(len(reference) + 1))
    for i, found in enumerate(hypothesis, start=1):
        diagonal, row[0] = row[0], i
        for j, wanted in enumerate(reference, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (found != wanted))
    return row[-1]
