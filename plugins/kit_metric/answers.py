"""What metrics that read answers share: a label of one's own, and sums over answers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kit import Answer, Options, Results, SummedMetric


class LabelledOptions(Options):
    """Options of metrics that can be called what they mean in a task."""

    label: str = ""
    """What people read beside the figure, such as: phoneme error."""


class AnswerMetric(SummedMetric):
    """A metric over answers that the model wrote."""

    options: LabelledOptions
    reads_answers = True

    @property
    def label(self) -> str:
        """The label of the recipe, or the metric's name."""
        return self.options.label or super().label

    @abstractmethod
    def judged(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """[answers, sums]: what each answer adds to each of the sums; there is at least one."""

    @abstractmethod
    def figure(self, sums: NDArray[np.float64]) -> float:
        """The figure that the sums come to; of no answers there is one sum, 0."""

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """What the answers of each example add."""
        answers = [answer for it in examples for answer in it.answers]
        if not answers:
            return np.zeros((len(examples), 1))
        each = self.judged(answers)
        sums = np.zeros((len(examples), each.shape[1]))
        np.add.at(sums, np.repeat(np.arange(len(examples)), [len(it.answers) for it in examples]), each)
        return sums


class ShareMetric(AnswerMetric):
    """The share of answers of which something holds."""

    is_share = True

    @abstractmethod
    def holds(self, answer: Answer) -> bool:
        """Whether it holds of this answer."""

    def judged(self, answers: Sequence[Answer]) -> NDArray[np.float64]:
        """Those of which it holds, and all."""
        return np.array([[self.holds(answer), 1.0] for answer in answers], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """0 to 1."""
        return float(sums[0] / max(1.0, sums[-1]))


def is_right(answer: Answer) -> bool:
    """Whether it equals one of its references; white space at the ends does not count."""
    return answer.text.strip() in {reference.strip() for reference in answer.references}
