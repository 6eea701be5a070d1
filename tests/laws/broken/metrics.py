"""Metrics that break one law each."""

from __future__ import annotations

from typing import Literal

from kit import Metric, Options, Results


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenMetric(Metric):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()
    reads_answers = True

    def measure(self, results: Results) -> float:
        return 1 - results.correct / max(1, results.num_predictions)


class DividesByAnswers(BrokenMetric):
    breaks = ("metric.finite_value",)

    def measure(self, results: Results) -> float:
        return super().measure(results) if any(it.text for it in results.answers) else float("nan")


class UpsideDown(BrokenMetric):
    breaks = ("metric.direction",)
    lower_is_better = False
