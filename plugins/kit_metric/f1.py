"""F1 of each class, averaged over classes however rare they are (macro; van Rijsbergen 1979)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kit import Answer
from kit_metric.answers import AnswerMetric, LabelledOptions


class F1Options(LabelledOptions):
    """Options of `f1`."""

    use: Literal["f1"] = "f1"


class F1Metric(AnswerMetric):
    """An answer is the class that was named, its first reference the right one.

    Classes are those that were named or would have been right. One that is neither in a sample of the answers does not
    count there.
    """

    options_type = F1Options
    lower_is_better = False
    is_share = True

    @property
    def label(self) -> str:
        """Says which mean it is."""
        return self.options.label or "macro F1"

    def judged(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, 2 · classes]: where the class was named rightly; and where it was named or right, one for each."""
        found = [answer.text.strip() for answer in answers]
        right = [answer.references[0].strip() if answer.references else "" for answer in answers]
        classes = np.array(sorted({*found, *right}))
        named = np.array(found)[:, None] == classes
        wanted = np.array(right)[:, None] == classes
        return np.concatenate([named & wanted, named.astype(np.int64) + wanted], axis=1).astype(np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """0 to 1: the mean over classes of 2 · hits / (named + right)."""
        hits, total = sums[: len(sums) // 2], sums[len(sums) // 2 :]
        there = total > 0
        return float((2 * hits[there] / total[there]).mean()) if len(hits) and there.any() else 0.0
