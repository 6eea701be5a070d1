"""Macro F1: the unweighted mean over classes of the F1 score (van Rijsbergen 1979)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kit import Answer
from kit_metric.answers import AnswerMetric, AnswerMetricOptions


class F1Options(AnswerMetricOptions):
    """Options of `f1`."""

    use: Literal["f1"] = "f1"


class F1Metric(AnswerMetric):
    """Macro F1; an answer is the predicted class, its first reference the true class.

    The classes are those predicted or true; a class that is neither in a bootstrap resample is left out of its mean.
    """

    options_type = F1Options
    lower_is_better = False
    is_fraction = True

    @property
    def label(self) -> str:
        """The displayed name, with the kind of mean."""
        return self.options.label or "macro F1"

    def statistics(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, 2 · classes]: true positives; then predicted + true, 0 to 2."""
        outputs = [answer.text.strip() for answer in answers]
        labels = [answer.references[0].strip() if answer.references else "" for answer in answers]
        classes = np.array(sorted({*outputs, *labels}))
        predicted = np.array(outputs)[:, None] == classes
        true = np.array(labels)[:, None] == classes
        return np.concatenate([predicted & true, predicted.astype(np.int64) + true], axis=1).astype(np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """The mean over classes of 2 · true positives / (predicted + true), 0 to 1."""
        positives, total = sums[: len(sums) // 2], sums[len(sums) // 2 :]
        occurs = total > 0
        return float((2 * positives[occurs] / total[occurs]).mean()) if len(positives) and occurs.any() else 0.0
