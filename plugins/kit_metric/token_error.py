"""Word error rate (WER): the edit distance in words, or in symbols such as phonemes, over reference words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kit_metric.answers import AnswerMetricOptions
from kit_metric.edit_distance import EditDistanceMetric


class TokenErrorOptions(AnswerMetricOptions):
    """Options of `token_error`."""

    use: Literal["token_error"] = "token_error"
    unit: Literal["word", "character"] = "word"
    """The unit: words, or symbols separated by spaces, such as phonemes; or characters, as `character_error`."""


class TokenErrorMetric(EditDistanceMetric):
    """Word error rate, of words separated by white space."""

    options_type = TokenErrorOptions
    options: TokenErrorOptions

    def units(self, text: str) -> Sequence[str]:
        """The words of a text, or its characters."""
        return text.split() if self.options.unit == "word" else text.strip()
