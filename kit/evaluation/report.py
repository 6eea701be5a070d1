"""Evaluation report: figures with confidence intervals, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kit.contracts.metric import Metric, Results, SummedMetric
from kit.evaluation.bootstrap import RESAMPLES, Interval, interval
from kit.evaluation.evaluate import EvalSource, EvaluatedRun
from kit.files.atomic import write_text
from kit.plugin.component import Options


class LossMetric(SummedMetric):
    """The mean negative log-likelihood of the targets, in nats a prediction; always evaluated."""

    def __init__(self) -> None:
        super().__init__(Options(use="loss"))

    @property
    def label(self) -> str:
        """The name of the metric."""
        return "loss"

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """Returns the negative log-likelihood and the number of predictions of each example."""
        return np.array([[it.nll_sum, it.num_predictions] for it in examples], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """Divides the summed negative log-likelihood by the number of predictions."""
        return float(sums[0] / max(1.0, sums[1]))


@dataclass(frozen=True)
class Figure:
    """The value of one metric."""

    name: str
    label: str
    value: float
    interval: Interval | None
    """The 95 % bootstrap interval; None if results are not kept for single examples."""
    is_fraction: bool = False
    signature: str = ""

    def shown(self, value: float) -> str:
        """Formats a value of this metric."""
        return shown(value, self.name, self.is_fraction)


@dataclass(frozen=True)
class Report:
    """The figures of a run on one evaluation source."""

    run: str
    data: str
    """The split, or the file."""
    examples: int
    """The number of examples; of plain text, windows."""
    left_out: int
    """The number of examples that were too long for the model."""
    figures: Sequence[Figure]

    def plain(self) -> dict[str, Any]:
        """Returns the report as data for JSON."""
        figures = {
            it.name: {
                "value": it.value,
                "interval": None if it.interval is None else list(it.interval),
                "signature": it.signature,
            }
            for it in self.figures
        }
        found = {"run": self.run, "data": self.data, "examples": self.examples, "left_out": self.left_out}
        return found | {"draws": RESAMPLES, "figures": figures}

    def write(self, folder: Path) -> Path:
        """Writes `evaluation-<data>.json` into a folder."""
        path = folder / f"evaluation-{self.data}.json"
        write_text(path, json.dumps(self.plain(), indent=2, ensure_ascii=False) + "\n")
        return path


def report(evaluated: EvaluatedRun, source: EvalSource) -> Report:
    """Computes the figures of an evaluation, each with its interval."""
    evaluation = evaluated.evaluation
    assert evaluation.results is not None
    metrics: dict[str, Metric] = {"loss": LossMetric(), **evaluated.metrics}
    figures = [
        Figure(
            name,
            metric.label,
            evaluation.figures[name],
            interval(metric, evaluation.results),
            metric.is_fraction,
            evaluation.signatures.get(name, ""),
        )
        for name, metric in metrics.items()
    ]
    return Report(evaluated.run.run.label, source.name, len(evaluation.indices), evaluated.left_out, figures)


def shown(value: float, name: str, is_fraction: bool) -> str:
    """Formats a value of a metric."""
    return f"{value:.2%}" if is_fraction else f"{value:.4f}" if name == "loss" else f"{value:.2f}"
