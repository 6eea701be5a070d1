"""What a model loses with its heads, one after another: in the order of a probe, and in random orders beside it."""

from __future__ import annotations

import random
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from kit.errors import KitError
from kit.inspecting.gating import Head, silenced, text_losses
from kit.inspecting.inspector import Inspector
from kit.inspecting.reading import Ids
from kit.model.families import Model


@dataclass(frozen=True)
class Curve:
    """The loss with more and more heads masked."""

    removed: tuple[int, ...]
    """How many heads are masked at each point, from 0 to all."""
    loss: tuple[float, ...]
    """In nats a prediction, in the mean over texts."""
    random: tuple[float, ...]
    """The same for random orders, in their mean."""
    random_low: tuple[float, ...]
    random_high: tuple[float, ...]

    @property
    def area(self) -> float:
        """The mean loss over all points: lower is a better order."""
        return statistics.fmean(self.loss)

    @property
    def random_area(self) -> float:
        """The same for random orders."""
        return statistics.fmean(self.random)


def how_many(words: str, total: int) -> int:
    """`30%` of the heads, or a number of them."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", words)
    if found is None:
        raise KitError(f"{words!r} is no number of heads; wanted such as 30% or 12")
    number = float(found[1]) * total / 100 if found[2] else float(found[1])
    if number > total:
        raise KitError(f"{words} heads are more than the {total} there are")
    return round(number)


def curve(inspector: Inspector, rows: Sequence[Ids], order: Sequence[Head], points: int = 11, orders: int = 5) -> Curve:
    """order: those that go first; orders: how many random orders are tried beside it."""
    removed = sorted({round(number * len(order) / (points - 1)) for number in range(points)})
    own = _losses(inspector, rows, order, removed)
    tried = []
    for seed in range(orders):
        shuffled = list(order)
        random.Random(seed).shuffle(shuffled)
        tried.append(_losses(inspector, rows, shuffled, removed))
    by_point = list(zip(*tried, strict=True))
    return Curve(
        tuple(removed),
        tuple(own),
        tuple(map(statistics.fmean, by_point)),
        tuple(map(min, by_point)),
        tuple(map(max, by_point)),
    )


def _losses(inspector: Inspector, rows: Sequence[Ids], order: Sequence[Head], removed: Sequence[int]) -> list[float]:
    counts: dict[str, int] = {}
    for site, head in order:
        counts[site] = max(counts.get(site, 0), head + 1)
    return [float(text_losses(inspector, rows, silenced(order[:number], counts)).mean()) for number in removed]


@torch.inference_mode()
def seconds(inspector: Inspector, models: Sequence[Model], rows: Sequence[Ids], times: int = 15) -> list[float]:
    """How long each model takes for these texts, at the least; in turns, so that a busy machine is unfair to none."""
    filled, _ = inspector.filled(rows)
    source, target = inspector.reader.inputs(inspector.reader.batch(filled, inspector.device))
    best = [float("inf")] * len(models)
    for _ in range(times):
        for number, model in enumerate(models):
            began = time.perf_counter()
            model(source, target, packed=True)
            if inspector.device.type == "cuda":
                torch.cuda.synchronize()
            best[number] = min(best[number], time.perf_counter() - began)
    return best
