"""Pruning curve: the loss by the number of masked heads, in the order of a probe and in random orders."""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from kit import ExampleIds, HeadId, Inspector, KitError, Model, ablated, sequence_losses


@dataclass(frozen=True)
class PruningCurve:
    """The loss by the number of masked heads."""

    removed: tuple[int, ...]
    """The number of masked heads at each point, from 0 to all."""
    loss: tuple[float, ...]
    """The loss in nats a prediction, averaged over sequences."""
    random: tuple[float, ...]
    """The loss, averaged over random orders."""
    random_low: tuple[float, ...]
    random_high: tuple[float, ...]

    @property
    def area(self) -> float:
        """The mean loss over all points: lower is a better order."""
        return statistics.fmean(self.loss)

    @property
    def random_area(self) -> float:
        """The mean loss over all points of the random orders."""
        return statistics.fmean(self.random)


def parse_head_count(text: str, total: int) -> int:
    """Parses a number of heads such as `30%` or `12`."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text)
    if found is None:
        raise KitError(f"{text!r} is no number of heads; wanted such as 30% or 12")
    number = float(found[1]) * total / 100 if found[2] else float(found[1])
    if number > total:
        raise KitError(f"{text} heads are more than the {total} there are")
    return round(number)


def pruning_curve(
    inspector: Inspector, rows: Sequence[ExampleIds], order: Sequence[HeadId], points: int = 11, random_orders: int = 5
) -> PruningCurve:
    """Computes the curve of an order of heads, the first to mask first, and those of random orders."""
    removed = sorted({round(number * len(order) / (points - 1)) for number in range(points)})
    losses = _losses(inspector, rows, order, removed)
    random_losses = []
    for seed in range(random_orders):
        shuffled = list(order)
        random.Random(seed).shuffle(shuffled)
        random_losses.append(_losses(inspector, rows, shuffled, removed))
    by_point = list(zip(*random_losses, strict=True))
    return PruningCurve(
        tuple(removed),
        tuple(losses),
        tuple(map(statistics.fmean, by_point)),
        tuple(map(min, by_point)),
        tuple(map(max, by_point)),
    )


def _losses(
    inspector: Inspector, rows: Sequence[ExampleIds], order: Sequence[HeadId], removed: Sequence[int]
) -> list[float]:
    head_counts: dict[str, int] = {}
    for site, head in order:
        head_counts[site] = max(head_counts.get(site, 0), head + 1)
    return [float(sequence_losses(inspector, rows, ablated(order[:number], head_counts)).mean()) for number in removed]


@torch.inference_mode()
def forward_seconds(
    inspector: Inspector, models: Sequence[Model], rows: Sequence[ExampleIds], repeats: int = 15
) -> list[float]:
    """Measures the least wall time of a forward pass of each model; interleaves models, for equal machine load."""
    complete, _ = inspector.with_generated_targets(rows)
    source, target = inspector.reader.model_inputs(inspector.reader.batch(complete, inspector.device))
    best = [float("inf")] * len(models)
    for _ in range(repeats):
        for number, model in enumerate(models):
            start = time.perf_counter()
            model(source, target, packed=True)
            if inspector.device.type != "cpu":
                torch.accelerator.synchronize()
            best[number] = min(best[number], time.perf_counter() - start)
    return best


def draw_curve(curve: PruningCurve, by: str, pruned: int, path: Path) -> Path | None:
    """Writes the curve as PNG with the number of pruned heads marked; None if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    panel = figure.subplots()
    panel.fill_between(curve.removed, curve.random_low, curve.random_high, color="#999999", alpha=0.25, linewidth=0)
    panel.plot(curve.removed, curve.random, color="#777777", label="random orders, from least to most", linestyle="--")
    panel.plot(curve.removed, curve.loss, color="#0072B2", label=f"by {by}", marker="o", markersize=3.5)
    panel.axvline(pruned, color="#D55E00", linewidth=1, label="pruned")
    panel.set_xlabel("heads masked")
    panel.set_ylabel("loss, nats a prediction")
    panel.legend(frameon=False, fontsize=8)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    figure.savefig(path, dpi=150)
    return path
