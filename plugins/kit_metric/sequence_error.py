"""Sequence error rate: the fraction of answers that equal no reference, such as the word error of pronunciations."""

from __future__ import annotations

from typing import Literal

from kit import Answer
from kit_metric.answers import AnswerMetricOptions, FractionMetric, is_exact_match


class SequenceErrorOptions(AnswerMetricOptions):
    """Options of `sequence_error`."""

    use: Literal["sequence_error"] = "sequence_error"


class SequenceErrorMetric(FractionMetric):
    """Sequence error rate: 1 - exact match, up to leading and trailing white space."""

    options_type = SequenceErrorOptions

    def is_counted(self, answer: Answer) -> bool:
        """Whether the answer equals no reference."""
        return not is_exact_match(answer)
