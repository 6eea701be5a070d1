"""Metrics that sacrebleu computes (Post 2018), with its signatures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kit import Answer, KitError
from kit_metric.answers import AnswerMetric


class SacreMetric(AnswerMetric):
    """Over the whole set of answers, against raw references; an answer without one counts as all wrong."""

    @abstractmethod
    def new_scorer(self, metrics: Any) -> Any:
        """A metric of `sacrebleu.metrics`."""

    def judged(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """The statistics that sacrebleu sums over sentences."""
        self._scorer = self.new_scorer(_library(self.label))
        most = max(1, *(len(answer.references) for answer in answers))
        filled = [[*(it.references or ("",)), *[None] * most][:most] for it in answers]
        streams = [[references[place] for references in filled] for place in range(most)]
        # What sacrebleu itself calls for its own resampling; its public functions give only the score of the whole.
        return np.array(self._scorer._extract_corpus_statistics([it.text for it in answers], streams), dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """0 to 100; error rates can be more."""
        if len(sums) == 1:
            return 0.0
        return float(self._scorer._compute_score_from_stats(sums.tolist()).score)

    def signature(self) -> str:
        """sacrebleu's, of what was measured last."""
        scorer = getattr(self, "_scorer", None)
        return "" if scorer is None else str(scorer.get_signature())


def _library(label: str) -> Any:
    try:
        return import_module("sacrebleu.metrics")
    except ImportError as error:
        hint = "pip install 'kitformer[metrics]'"
        raise KitError(f"{label} is measured with sacrebleu, which is missing: {hint}") from error
