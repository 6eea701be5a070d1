"""chrF and chrF++ (Popović 2015, 2017) as sacrebleu computes them, with its signature."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt

from kit_metric.answers import LabelledOptions
from kit_metric.sacre import SacreMetric


class ChrfOptions(LabelledOptions):
    """Options of `chrf`."""

    use: Literal["chrf"] = "chrf"
    characters: PositiveInt = 6
    """The longest n-grams of characters."""
    words: int = Field(default=0, ge=0)
    """The longest n-grams of words; 2 gives chrF++."""
    lowercase: bool = False
    """Whether capitals count as small letters."""


class ChrfMetric(SacreMetric):
    """N-grams of characters that answers share with references, 0 to 100."""

    options_type = ChrfOptions
    options: ChrfOptions
    lower_is_better = False

    @property
    def label(self) -> str:
        """As people write it."""
        return self.options.label or "chrF" + "+" * min(2, self.options.words)

    def new_scorer(self, metrics: Any) -> Any:
        """sacrebleu's chrF."""
        options = self.options
        return metrics.CHRF(char_order=options.characters, word_order=options.words, lowercase=options.lowercase)
