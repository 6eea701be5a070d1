"""Characters that are wrong, over those wanted (character error rate)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kit_metric.answers import LabelledOptions
from kit_metric.edits import EditMetric


class CharacterErrorOptions(LabelledOptions):
    """Options of `character_error`."""

    use: Literal["character_error"] = "character_error"


class CharacterErrorMetric(EditMetric):
    """Spaces count too; white space at the ends does not."""

    options_type = CharacterErrorOptions

    def units(self, text: str) -> Sequence[str]:
        """Characters."""
        return text.strip()
