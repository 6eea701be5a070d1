"""Base classes of metrics that compare generated outputs with references, by sums of statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kit import Answer, Options, Results, SummedMetric


class AnswerMetricOptions(Options):
    """Options of metrics with a displayed name."""

    label: str = ""
    """The displayed name, such as: phoneme error."""


class AnswerMetric(SummedMetric):
    """A metric of generated outputs, computed from sums of statistics over answers."""

    options: AnswerMetricOptions
    reads_answers = True

    @property
    def label(self) -> str:
        """The displayed name: the label of the recipe, or else the metric's name."""
        return self.options.label or super().label

    @abstractmethod
    def statistics(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, statistics]: the sufficient statistics of each answer; there is at least one answer."""

    @abstractmethod
    def figure(self, sums: NDArray[np.float64]) -> float:
        """The figure of summed statistics; without answers, `sums` is a single 0."""

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """[examples, statistics]: the summed statistics of the answers of each example."""
        answers = [answer for it in examples for answer in it.answers]
        if not answers:
            return np.zeros((len(examples), 1))
        statistics = self.statistics(answers)
        sums = np.zeros((len(examples), statistics.shape[1]))
        np.add.at(sums, np.repeat(np.arange(len(examples)), [len(it.answers) for it in examples]), statistics)
        return sums


class FractionMetric(AnswerMetric):
    """The fraction of answers that meet a condition."""

    is_fraction = True

    @abstractmethod
    def is_counted(self, answer: Answer) -> bool:
        """Whether the answer meets the condition."""

    def statistics(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, 2]: 1 if the answer is counted, and 1."""
        return np.array([[self.is_counted(answer), 1.0] for answer in answers], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """The fraction, 0 to 1."""
        return float(sums[0] / max(1.0, sums[-1]))


def is_exact_match(answer: Answer) -> bool:
    """Whether an answer equals one of its references, up to leading and trailing white space."""
    return answer.text.strip() in {reference.strip() for reference in answer.references}
