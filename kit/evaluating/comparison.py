"""Whether one run is better than another, measured on the same examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kit.contracts.metric import Metric, Results
from kit.errors import KitError
from kit.evaluating.measuring import Measured
from kit.evaluating.report import LossMetric, shown
from kit.evaluating.resampling import Difference, difference

DECIDED = 0.05
"""A difference counts where models that do not differ would seem to differ so much less often than this."""


@dataclass(frozen=True)
class Compared:
    """One figure of both runs."""

    name: str
    metric: Metric
    difference: Difference

    @property
    def decided(self) -> bool:
        """Whether the difference is more than chance."""
        return self.difference.p < DECIDED and self.difference.value != 0

    @property
    def second_is_better(self) -> bool:
        """Which way the difference points."""
        return (self.difference.value < 0) == self.metric.lower_is_better

    def shown(self, value: float) -> str:
        """A value of this figure as people read it."""
        return shown(value, self.name, self.metric.is_share)


@dataclass(frozen=True)
class Comparison:
    """Two runs on the same examples."""

    first: str
    second: str
    examples: int
    figures: Sequence[Compared]
    notes: Sequence[str] = ()
    """What could not be compared, and why."""

    def sentence(self, found: Compared) -> str:
        """Who is better in one figure, or that it is not decided."""
        it, show = found.difference, found.shown
        sizes = f"{show(it.first)} and {show(it.second)}, p = {it.p:.3f}"
        if not found.decided:
            return f"{found.metric.label}: not decided between {self.first} and {self.second} ({sizes})"
        better = self.second if found.second_is_better else self.first
        return f"{found.metric.label}: {better} is better ({sizes})"

    def plain(self) -> dict[str, Any]:
        """For programs."""
        figures = {
            it.name: {
                "first": it.difference.first,
                "second": it.difference.second,
                "difference": it.difference.value,
                "interval": [it.difference.low, it.difference.high],
                "p": it.difference.p,
                "better": (self.second if it.second_is_better else self.first) if it.decided else None,
            }
            for it in self.figures
        }
        found = {"first": self.first, "second": self.second, "examples": self.examples}
        return found | {"figures": figures, "notes": list(self.notes)}


def compare(first: Measured, second: Measured) -> Comparison:
    """Compare what was measured with the same metrics on the same data, over examples that both measured."""
    here, there = _by_index(first), _by_index(second)
    shared = sorted(here.keys() & there.keys())
    if len(shared) < 2:
        raise KitError(
            f"{first.run.run.label} and {second.run.run.label} have {len(shared)} examples in common, and 2 at least "
            "are wanted: one of them cannot read the others, or their objectives do not tell examples apart"
        )
    left, right = (Results.of([side[index] for index in shared]) for side in (here, there))
    metrics: Mapping[str, Metric] = {"loss": LossMetric(), **first.metrics}
    alike = _predict_alike(first, second) and all(
        a.predicted == b.predicted for a, b in zip(left.examples, right.examples, strict=True)
    )
    kept = {name: metric for name, metric in metrics.items() if alike or metric.reads_answers}
    notes = [
        f"{metric.label} is not compared: the runs predict different tokens"
        for name, metric in metrics.items()
        if name not in kept
    ]
    figures = [Compared(name, metric, difference(metric, left, right)) for name, metric in kept.items()]
    return Comparison(first.run.run.label, second.run.run.label, len(shared), figures, notes)


def _by_index(measured: Measured) -> dict[int, Results]:
    evaluation = measured.evaluation
    assert evaluation.results is not None
    return dict(zip(evaluation.indices, evaluation.results.examples, strict=True))


def _predict_alike(first: Measured, second: Measured) -> bool:
    """Whether both predict the same things: classes, or the same tokens."""
    if first.run.labels or second.run.labels:
        return first.run.labels == second.run.labels
    return first.run.tokenizers.target.fingerprint() == second.run.tokenizers.target.fingerprint()
