"""Metrics of evaluation, one a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit import hookimpl

if TYPE_CHECKING:
    from kit import Component

kit_api = 1


@hookimpl
def kit_components() -> list[type[Component]]:
    """Returns the metrics, imported on demand."""
    from kit_metric.accuracy import AccuracyMetric
    from kit_metric.bleu import BleuMetric
    from kit_metric.character_error import CharacterErrorMetric
    from kit_metric.chrf import ChrfMetric
    from kit_metric.exact import ExactMetric
    from kit_metric.f1 import F1Metric
    from kit_metric.perplexity import PerplexityMetric
    from kit_metric.sequence_error import SequenceErrorMetric
    from kit_metric.ter import TerMetric
    from kit_metric.token_error import TokenErrorMetric

    return [
        AccuracyMetric,
        BleuMetric,
        CharacterErrorMetric,
        ChrfMetric,
        ExactMetric,
        F1Metric,
        PerplexityMetric,
        SequenceErrorMetric,
        TerMetric,
        TokenErrorMetric,
    ]
