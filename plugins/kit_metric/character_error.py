"""Character error rate (CER): the edit distance in characters over reference characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kit_metric.answers import AnswerMetricOptions
from kit_metric.edit_distance import EditDistanceMetric


class CharacterErrorOptions(AnswerMetricOptions):
    """Options of `character_error`."""

    use: Literal["character_error"] = "character_error"


class CharacterErrorMetric(EditDistanceMetric):
    """Character error rate; inner spaces are characters, leading and trailing white space is stripped."""

    options_type = CharacterErrorOptions

    def units(self, text: str) -> Sequence[str]:
        """The characters of a text."""
        return text.strip()
