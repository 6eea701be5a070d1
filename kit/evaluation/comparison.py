"""Compares two evaluations of the same examples: paired differences with intervals and p-values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.contracts.metric import Metric, Results
from kit.errors import KitError
from kit.evaluation.bootstrap import Difference, difference
from kit.evaluation.evaluate import EvaluatedRun
from kit.evaluation.report import LossMetric, shown

SIGNIFICANCE = 0.05
"""A difference is significant if its p-value is below this."""


@dataclass(frozen=True)
class Compared:
    """The value of one metric for both runs."""

    name: str
    metric: Metric
    difference: Difference

    @property
    def significant(self) -> bool:
        """Whether the difference is statistically significant."""
        return self.difference.p < SIGNIFICANCE and self.difference.value != 0

    @property
    def second_is_better(self) -> bool:
        """Whether the second run has the better value."""
        return (self.difference.value < 0) == self.metric.lower_is_better

    def shown(self, value: float) -> str:
        """Formats a value of this metric."""
        return shown(value, self.name, self.metric.is_fraction)


@dataclass(frozen=True)
class Comparison:
    """The comparison of two runs on the same examples."""

    first: str
    second: str
    examples: int
    figures: Sequence[Compared]
    notes: Sequence[str] = ()
    """Metrics that could not be compared, and why."""

    def sentence(self, found: Compared) -> str:
        """Says which run is better by one metric, or that it is not decided."""
        it, show = found.difference, found.shown
        sizes = f"{show(it.first)} and {show(it.second)}, p = {it.p:.3f}"
        if not found.significant:
            return f"{found.metric.label}: not decided between {self.first} and {self.second} ({sizes})"
        better = self.second if found.second_is_better else self.first
        return f"{found.metric.label}: {better} is better ({sizes})"

    def plain(self) -> dict[str, Any]:
        """Returns the comparison as data for JSON."""
        figures = {
            it.name: {
                "first": it.difference.first,
                "second": it.difference.second,
                "difference": it.difference.value,
                "interval": [it.difference.low, it.difference.high],
                "p": it.difference.p,
                "better": (self.second if it.second_is_better else self.first) if it.significant else None,
            }
            for it in self.figures
        }
        found = {"first": self.first, "second": self.second, "examples": self.examples}
        return found | {"figures": figures, "notes": list(self.notes)}


def compare(first: EvaluatedRun, second: EvaluatedRun) -> Comparison:
    """Compares two evaluations with the same metrics on the same data, over the examples that both have."""
    here, there = _by_index(first), _by_index(second)
    shared = sorted(here.keys() & there.keys())
    if len(shared) < 2:
        raise KitError(
            f"{first.run.run.label} and {second.run.run.label} have {len(shared)} examples in common, and 2 at least "
            "are wanted: one of them cannot read the others, or their objectives do not tell examples apart"
        )
    left, right = (Results.of([side[index] for index in shared]) for side in (here, there))
    metrics: Mapping[str, Metric] = {"loss": LossMetric(), **first.metrics}
    same_targets = _same_targets(first, second) and all(
        a.num_predictions == b.num_predictions for a, b in zip(left.examples, right.examples, strict=True)
    )
    kept = {name: metric for name, metric in metrics.items() if same_targets or metric.reads_answers}
    notes = [
        f"{metric.label} is not compared: the runs predict different tokens"
        for name, metric in metrics.items()
        if name not in kept
    ]
    figures = [Compared(name, metric, difference(metric, left, right)) for name, metric in kept.items()]
    return Comparison(first.run.run.label, second.run.run.label, len(shared), figures, notes)


def _by_index(evaluated: EvaluatedRun) -> dict[int, Results]:
    evaluation = evaluated.evaluation
    assert evaluation.results is not None
    return dict(zip(evaluation.indices, evaluation.results.examples, strict=True))


def _same_targets(first: EvaluatedRun, second: EvaluatedRun) -> bool:
    """Whether both predict the same classes, or tokens of the same vocabulary."""
    if first.run.labels or second.run.labels:
        return first.run.labels == second.run.labels
    return first.run.tokenizers.target.fingerprint() == second.run.tokenizers.target.fingerprint()
