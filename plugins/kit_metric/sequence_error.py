"""The share of answers that are not right as a whole, such as the word error of pronunciations."""

from __future__ import annotations

from typing import Literal

from kit import Results
from kit_metric.answers import AnswerMetric, LabelledOptions


class SequenceErrorOptions(LabelledOptions):
    """Options of `sequence_error`."""

    use: Literal["sequence_error"] = "sequence_error"


class SequenceErrorMetric(AnswerMetric):
    """Answers that equal none of their references; white space at the ends does not count."""

    options_type = SequenceErrorOptions
    is_share = True

    def measure(self, results: Results) -> float:
        """0 to 1."""
        wrong = [all(it.text.strip() != reference.strip() for reference in it.references) for it in results.answers]
        return sum(wrong) / max(1, len(wrong))
