"""chrF and chrF++ (Popović 2015, 2017) as sacrebleu computes them, with its signature."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, PositiveInt

from kit_metric.answers import AnswerMetricOptions
from kit_metric.sacrebleu_metric import SacrebleuMetric


class ChrfOptions(AnswerMetricOptions):
    """Options of `chrf`."""

    use: Literal["chrf"] = "chrf"
    characters: PositiveInt = 6
    """The maximum order of character n-grams."""
    words: int = Field(default=0, ge=0)
    """The maximum order of word n-grams; 2 gives chrF++."""
    lowercase: bool = False
    """Whether case is ignored."""


class ChrfMetric(SacrebleuMetric):
    """chrF: the F-score of character n-grams, 0 to 100."""

    options_type = ChrfOptions
    options: ChrfOptions
    lower_is_better = False

    @property
    def label(self) -> str:
        """The displayed name."""
        return self.options.label or "chrF" + "+" * min(2, self.options.words)

    def sacrebleu_metric(self, metrics: Any) -> Any:
        """Returns sacrebleu's chrF."""
        options = self.options
        return metrics.CHRF(char_order=options.characters, word_order=options.words, lowercase=options.lowercase)
