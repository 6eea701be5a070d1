"""The share of answers that are not right as a whole, such as the word error of pronunciations."""

from __future__ import annotations

from typing import Literal

from kit import Answer
from kit_metric.answers import LabelledOptions, ShareMetric, is_right


class SequenceErrorOptions(LabelledOptions):
    """Options of `sequence_error`."""

    use: Literal["sequence_error"] = "sequence_error"


class SequenceErrorMetric(ShareMetric):
    """Answers that equal none of their references; white space at the ends does not count."""

    options_type = SequenceErrorOptions

    def holds(self, answer: Answer) -> bool:
        """It is wrong."""
        return not is_right(answer)
