"""Accuracy: the fraction of correct predictions, of next tokens (teacher forcing) or of classes."""

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
    """Correct predictions over all predictions."""

    options_type = AccuracyOptions
    lower_is_better = False
    is_fraction = True

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """[examples, 2]: correct predictions, and all predictions."""
        return np.array([[it.correct, it.num_predictions] for it in examples], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """The accuracy, 0 to 1."""
        return float(sums[0] / max(1.0, sums[1]))
