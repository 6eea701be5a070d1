"""Translation edit rate (Snover et al. 2006) as sacrebleu computes it, with its signature."""

from __future__ import annotations

from typing import Any, Literal

from kit_metric.answers import AnswerMetricOptions
from kit_metric.sacrebleu_metric import SacrebleuMetric


class TerOptions(AnswerMetricOptions):
    """Options of `ter`."""

    use: Literal["ter"] = "ter"
    normalized: bool = False
    """Whether to separate punctuation and resolve entities first."""
    case_sensitive: bool = False
    """Whether case matters."""


class TerMetric(SacrebleuMetric):
    """TER: word insertions, deletions, substitutions and shifts over reference words, in per cent; lower is better."""

    options_type = TerOptions
    options: TerOptions

    @property
    def label(self) -> str:
        """The displayed name."""
        return self.options.label or "TER"

    def sacrebleu_metric(self, metrics: Any) -> Any:
        """Returns sacrebleu's TER."""
        return metrics.TER(normalized=self.options.normalized, case_sensitive=self.options.case_sensitive)
