"""Error rate by edit distance (Levenshtein 1966): tokens to insert, remove or exchange, over those wanted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from kit import Results
from kit_metric.answers import AnswerMetric, LabelledOptions


class TokenErrorOptions(LabelledOptions):
    """Options of `token_error`."""

    use: Literal["token_error"] = "token_error"
    unit: Literal["word", "character"] = "word"
    """What is counted: words, or symbols with spaces between, such as phonemes; or characters."""


class TokenErrorMetric(AnswerMetric):
    """Of several references the nearest counts, and of those as near the longest."""

    options_type = TokenErrorOptions
    options: TokenErrorOptions
    is_share = True

    def measure(self, results: Results) -> float:
        """0 for answers that are all right; more than 1 is possible."""
        errors = wanted = 0
        for answer in results.answers:
            found = self._units(answer.text)
            sides = [self._units(reference) for reference in answer.references]
            distance, length = min((edit_distance(found, side), -len(side)) for side in sides)
            errors += distance
            wanted -= length
        return errors / max(1, wanted)

    def _units(self, text: str) -> Sequence[str]:
        return text.split() if self.options.unit == "word" else text.strip()


def edit_distance(left: Sequence[str], right: Sequence[str]) -> int:
    """The fewest insertions, removals and exchanges that make one of the other."""
    row = list(range(len(right) + 1))
    for place, item in enumerate(left, start=1):
        before, row[0] = row[0], place
        for column, other in enumerate(right, start=1):
            before, row[column] = row[column], min(row[column] + 1, row[column - 1] + 1, before + (item != other))
    return row[-1]
