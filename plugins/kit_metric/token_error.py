"""Words, or symbols with spaces between such as phonemes, that are wrong, over those wanted (word error rate)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kit_metric.answers import LabelledOptions
from kit_metric.edits import EditMetric


class TokenErrorOptions(LabelledOptions):
    """Options of `token_error`."""

    use: Literal["token_error"] = "token_error"
    unit: Literal["word", "character"] = "word"
    """What is counted: words, or symbols with spaces between, such as phonemes; or characters, as `character_error`."""


class TokenErrorMetric(EditMetric):
    """What white space divides is counted."""

    options_type = TokenErrorOptions
    options: TokenErrorOptions

    def units(self, text: str) -> Sequence[str]:
        """Words, or characters."""
        return text.split() if self.options.unit == "word" else text.strip()
