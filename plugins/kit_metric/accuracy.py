"""The share of predictions that are right: tokens, given the right ones before; or classes of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kit import Options, Results, SummedMetric


class AccuracyOptions(Options):
    """Options of `accuracy`."""

    use: Literal["accuracy"] = "accuracy"


class AccuracyMetric(SummedMetric):
    """Right predictions over all predictions."""

    options_type = AccuracyOptions
    lower_is_better = False
    is_share = True

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """Right predictions, and all."""
        return np.array([[it.correct, it.predicted] for it in examples], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """0 to 1."""
        return float(sums[0] / max(1.0, sums[1]))
