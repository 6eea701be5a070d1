"""Translation edit rate (Snover et al. 2006) as sacrebleu computes it, with its signature."""

from __future__ import annotations

from typing import Any, Literal

from kit_metric.answers import LabelledOptions
from kit_metric.sacre import SacreMetric


class TerOptions(LabelledOptions):
    """Options of `ter`."""

    use: Literal["ter"] = "ter"
    normalized: bool = False
    """Whether punctuation is set apart and entities are resolved first."""
    case_sensitive: bool = False
    """Whether capitals count as other letters."""


class TerMetric(SacreMetric):
    """Words to insert, remove, exchange or move, over those of the references, in per cent; lower is better."""

    options_type = TerOptions
    options: TerOptions

    @property
    def label(self) -> str:
        """As people write it."""
        return self.options.label or "TER"

    def new_scorer(self, metrics: Any) -> Any:
        """sacrebleu's TER."""
        return metrics.TER(normalized=self.options.normalized, case_sensitive=self.options.case_sensitive)
