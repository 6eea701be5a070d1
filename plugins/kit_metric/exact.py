"""The share of answers that are right as a whole."""

from __future__ import annotations

from typing import Literal

from kit import Answer
from kit_metric.answers import LabelledOptions, ShareMetric, is_right


class ExactOptions(LabelledOptions):
    """Options of `exact`."""

    use: Literal["exact"] = "exact"


class ExactMetric(ShareMetric):
    """Answers that equal one of their references; white space at the ends does not count."""

    options_type = ExactOptions
    lower_is_better = False

    def holds(self, answer: Answer) -> bool:
        """It is right."""
        return is_right(answer)
