"""BLEU (Papineni et al. 2002) as sacrebleu computes it (Post 2018), with its signature."""

from __future__ import annotations

from typing import Any, Literal

from kit_metric.answers import AnswerMetricOptions
from kit_metric.sacrebleu_metric import SacrebleuMetric


class BleuOptions(AnswerMetricOptions):
    """Options of `bleu`."""

    use: Literal["bleu"] = "bleu"
    lowercase: bool = False
    """Whether case is ignored."""
    tokenize: Literal["13a", "intl", "char", "none", "zh"] = "13a"
    """sacrebleu's tokenizer."""


class BleuMetric(SacrebleuMetric):
    """BLEU: the precision of word n-grams with a brevity penalty, 0 to 100."""

    options_type = BleuOptions
    options: BleuOptions
    lower_is_better = False

    @property
    def label(self) -> str:
        """The displayed name."""
        return self.options.label or "BLEU"

    def sacrebleu_metric(self, metrics: Any) -> Any:
        """Returns sacrebleu's BLEU."""
        return metrics.BLEU(lowercase=self.options.lowercase, tokenize=self.options.tokenize)
