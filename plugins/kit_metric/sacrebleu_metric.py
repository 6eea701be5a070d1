"""Base class of metrics computed by sacrebleu (Post 2018), with its signatures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kit import Answer, KitError
from kit_metric.answers import AnswerMetric


class SacrebleuMetric(AnswerMetric):
    """Corpus-level score against raw references; an answer without one has an empty reference."""

    @abstractmethod
    def sacrebleu_metric(self, metrics: Any) -> Any:
        """Returns a metric of the module `sacrebleu.metrics`."""

    def statistics(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, statistics]: sacrebleu's sentence statistics."""
        self._scorer = self.sacrebleu_metric(_library(self.label))
        num_references = max(1, *(len(answer.references) for answer in answers))
        padded = [[*(it.references or ("",)), *[None] * num_references][:num_references] for it in answers]
        streams = [[references[index] for references in padded] for index in range(num_references)]
        # sacrebleu's resampling calls these private functions too; the public ones return only the corpus score.
        return np.array(self._scorer._extract_corpus_statistics([it.text for it in answers], streams), dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """The corpus score, 0 to 100; an error rate may exceed 100."""
        if len(sums) == 1:
            return 0.0
        return float(self._scorer._compute_score_from_stats(sums.tolist()).score)

    def signature(self) -> str:
        """sacrebleu's signature of the last measurement; empty before."""
        scorer = getattr(self, "_scorer", None)
        return "" if scorer is None else str(scorer.get_signature())


def _library(label: str) -> Any:
    try:
        return import_module("sacrebleu.metrics")
    except ImportError as error:
        hint = "pip install 'kitformer[metrics]'"
        raise KitError(f"{label} is measured with sacrebleu, which is missing: {hint}") from error
