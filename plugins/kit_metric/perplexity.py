"""Perplexity: how many choices a model hesitates between, on average (Jelinek et al. 1977)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kit import Options, Results, SummedMetric


class PerplexityOptions(Options):
    """Options of `perplexity`."""

    use: Literal["perplexity"] = "perplexity"


class PerplexityMetric(SummedMetric):
    """The exponential of the mean surprise, without label smoothing."""

    options_type = PerplexityOptions

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """The surprise, and how many predictions there were."""
        return np.array([[it.nats, it.predicted] for it in examples], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """From 1 up."""
        try:
            return math.exp(float(sums[0]) / max(1.0, float(sums[1])))
        except OverflowError:
            return math.inf
