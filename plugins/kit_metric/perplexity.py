"""Perplexity: how many choices a model hesitates between, on average (Jelinek et al. 1977)."""

from __future__ import annotations

import math
from typing import Literal

from kit import Metric, Options, Results


class PerplexityOptions(Options):
    """Options of `perplexity`."""

    use: Literal["perplexity"] = "perplexity"


class PerplexityMetric(Metric):
    """The exponential of the mean surprise, without label smoothing."""

    options_type = PerplexityOptions

    def measure(self, results: Results) -> float:
        """From 1 up."""
        try:
            return math.exp(results.nats / max(1, results.predicted))
        except OverflowError:
            return math.inf
