"""Exact match: the fraction of answers that equal a reference."""

from __future__ import annotations

from typing import Literal

from kit import Answer
from kit_metric.answers import AnswerMetricOptions, FractionMetric, is_exact_match


class ExactOptions(AnswerMetricOptions):
    """Options of `exact`."""

    use: Literal["exact"] = "exact"


class ExactMetric(FractionMetric):
    """Exact match, up to leading and trailing white space."""

    options_type = ExactOptions
    lower_is_better = False

    def is_counted(self, answer: Answer) -> bool:
        """Whether the answer equals a reference."""
        return is_exact_match(answer)
