"""Perplexity: exp of the mean negative log-likelihood per prediction (Jelinek et al. 1977)."""

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
    """Perplexity, without label smoothing."""

    options_type = PerplexityOptions

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """[examples, 2]: the summed negative log-likelihood, and the number of predictions."""
        return np.array([[it.nll_sum, it.num_predictions] for it in examples], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """The perplexity, at least 1; infinite on overflow."""
        try:
            return math.exp(float(sums[0]) / max(1.0, float(sums[1])))
        except OverflowError:
            return math.inf
