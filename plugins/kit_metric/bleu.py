"""BLEU (Papineni et al. 2002) as sacrebleu computes it (Post 2018), with its signature."""

from __future__ import annotations

from typing import Any, Literal

from kit_metric.answers import LabelledOptions
from kit_metric.sacre import SacreMetric


class BleuOptions(LabelledOptions):
    """Options of `bleu`."""

    use: Literal["bleu"] = "bleu"
    lowercase: bool = False
    """Whether capitals count as small letters."""
    tokenize: Literal["13a", "intl", "char", "none", "zh"] = "13a"
    """How sacrebleu cuts text into words."""


class BleuMetric(SacreMetric):
    """N-grams of words that answers share with references, 0 to 100."""

    options_type = BleuOptions
    options: BleuOptions
    lower_is_better = False

    @property
    def label(self) -> str:
        """As people write it."""
        return self.options.label or "BLEU"

    def new_scorer(self, metrics: Any) -> Any:
        """sacrebleu's BLEU."""
        return metrics.BLEU(lowercase=self.options.lowercase, tokenize=self.options.tokenize)
