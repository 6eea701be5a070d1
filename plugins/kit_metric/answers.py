"""What metrics that read answers share: a label of one's own."""

from __future__ import annotations

from kit import Metric, Options


class LabelledOptions(Options):
    """Options of metrics that can be called what they mean in a task."""

    label: str = ""
    """What people read beside the figure, such as: phoneme error."""


class AnswerMetric(Metric):
    """A metric over answers that the model wrote."""

    options: LabelledOptions
    reads_answers = True

    @property
    def label(self) -> str:
        """The label of the recipe, or the metric's name."""
        return self.options.label or super().label
