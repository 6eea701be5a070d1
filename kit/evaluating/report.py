"""What an evaluation says: figures with intervals, for people and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kit.component import Options
from kit.contracts.metric import Metric, Results, SummedMetric
from kit.evaluating.measuring import Measured, Questions
from kit.evaluating.resampling import DRAWS, Interval, interval
from kit.runs.atomic import write_text


class LossMetric(SummedMetric):
    """The mean surprise at the right answers, in nats a prediction; always measured."""

    def __init__(self) -> None:
        super().__init__(Options(use="loss"))

    @property
    def label(self) -> str:
        """What it is called everywhere."""
        return "loss"

    def counts(self, examples: Sequence[Results]) -> NDArray[np.float64]:
        """The surprise, and how many predictions there were."""
        return np.array([[it.nats, it.predicted] for it in examples], dtype=np.float64)

    def figure(self, sums: NDArray[np.float64]) -> float:
        """From 0 up."""
        return float(sums[0] / max(1.0, sums[1]))


@dataclass(frozen=True)
class Figure:
    """One figure."""

    name: str
    label: str
    value: float
    interval: Interval | None
    """Where 95 % of draws lie; None where examples cannot be told apart."""
    is_share: bool = False
    signature: str = ""

    def shown(self, value: float) -> str:
        """A value of this figure as people read it."""
        return shown(value, self.name, self.is_share)


@dataclass(frozen=True)
class Report:
    """What a run measures on one collection of examples."""

    run: str
    data: str
    """The split, or the file."""
    examples: int
    """How many there were; of plain text, windows."""
    left_out: int
    """How many were too long for the model."""
    figures: Sequence[Figure]

    def plain(self) -> dict[str, Any]:
        """For programs."""
        figures = {
            it.name: {
                "value": it.value,
                "interval": None if it.interval is None else list(it.interval),
                "signature": it.signature,
            }
            for it in self.figures
        }
        found = {"run": self.run, "data": self.data, "examples": self.examples, "left_out": self.left_out}
        return found | {"draws": DRAWS, "figures": figures}

    def write(self, folder: Path) -> Path:
        """Into a folder, as `evaluation-<data>.json`."""
        path = folder / f"evaluation-{self.data}.json"
        write_text(path, json.dumps(self.plain(), indent=2, ensure_ascii=False) + "\n")
        return path


def report(measured: Measured, asked: Questions) -> Report:
    """The figures of a run, each with its interval."""
    evaluation = measured.evaluation
    assert evaluation.results is not None
    metrics: dict[str, Metric] = {"loss": LossMetric(), **measured.metrics}
    figures = [
        Figure(
            name,
            metric.label,
            evaluation.figures[name],
            interval(metric, evaluation.results),
            metric.is_share,
            evaluation.signatures.get(name, ""),
        )
        for name, metric in metrics.items()
    ]
    return Report(measured.run.run.label, asked.name, len(evaluation.indices), measured.left_out, figures)


def shown(value: float, name: str, is_share: bool) -> str:
    """A figure as people read it."""
    return f"{value:.2%}" if is_share else f"{value:.4f}" if name == "loss" else f"{value:.2f}"
