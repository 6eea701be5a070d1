"""The share of answers that are right as a whole."""

from __future__ import annotations

from typing import Literal

from kit import Results
from kit_metric.answers import AnswerMetric, LabelledOptions


class ExactOptions(LabelledOptions):
    """Options of `exact`."""

    use: Literal["exact"] = "exact"


class ExactMetric(AnswerMetric):
    """Answers that equal one of their references; white space at the ends does not count."""

    options_type = ExactOptions
    lower_is_better = False
    is_share = True

    def measure(self, results: Results) -> float:
        """0 to 1."""
        right = [any(it.text.strip() == reference.strip() for reference in it.references) for it in results.answers]
        return sum(right) / max(1, len(right))
