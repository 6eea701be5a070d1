"""The share of predictions that are right: tokens, given the right ones before; or classes of texts."""

from __future__ import annotations

from typing import Literal

from kit import Metric, Options, Results


class AccuracyOptions(Options):
    """Options of `accuracy`."""

    use: Literal["accuracy"] = "accuracy"


class AccuracyMetric(Metric):
    """Right predictions over all predictions."""

    options_type = AccuracyOptions
    lower_is_better = False
    is_share = True

    def measure(self, results: Results) -> float:
        """0 to 1."""
        return results.correct / max(1, results.predicted)
