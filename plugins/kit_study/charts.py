"""Charts of a study: its metric over numeric axes, learning curves, and the series of measures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit_study.drawing import Chart, Line
from kit_study.results import Outcome, Report, Row
from kit_study.statistics import estimate

MIN_LOG_RATIO = 20.0
"""The ratio of largest to smallest value from which an x axis is logarithmic."""


def charts(found: Report) -> Iterator[Chart]:
    """Yields all charts, the most informative first."""
    yield from _over_conditions(found)
    yield from _measure_series(found)
    for outcome in found.outcomes:
        yield from _learning_curves(found, outcome)


def _over_conditions(found: Report) -> Iterator[Chart]:
    """Yields charts of the metric over each numeric axis, for each combination of the other axes."""
    study, metric = found.plan.study, found.plan.study.section.metric
    axes = [name for name in study.labels() if name != study.compared]
    numeric = [name for name in axes if _are_numeric(list(study.labels()[name]))]
    for axis in numeric:
        rest = dict.fromkeys(tuple(item for item in outcome.condition if item[0] != axis) for outcome in found.outcomes)
        for others in rest:
            lines: dict[str, list[tuple[float, float, float | None]]] = {}
            for outcome in found.outcomes:
                if set(others) <= set(outcome.condition):
                    at = float(dict(outcome.condition)[axis])
                    for row in outcome.rows:
                        if row.estimate is not None:
                            lines.setdefault(row.label, []).append((at, row.estimate.mean, row.estimate.half))
            title = f"{metric} over {axis}" + "".join(f", {name} {label}" for name, label in others)
            yield _chart(title, axis, metric, lines)
    compared = study.labels().get(study.compared or "", {})
    if _are_numeric(list(compared)):
        groups: dict[str, list[tuple[float, float, float | None]]] = {}
        for outcome in found.outcomes:
            for row in outcome.rows:
                if row.estimate is not None:
                    point = (float(row.label), row.estimate.mean, row.estimate.half)
                    groups.setdefault(outcome.title or metric, []).append(point)
        yield _chart(f"{metric} over {study.compared}", str(study.compared), metric, groups)


def _measure_series(found: Report) -> Iterator[Chart]:
    """Yields a chart for each series of a measure, with a line for each value of the compared axis."""
    for outcome in found.outcomes:
        names = dict.fromkeys(
            (each["measure"], each["name"]) for row in outcome.rows for each in _series(row) if len(each["x"]) > 1
        )
        for measure, name in names:
            lines: dict[str, list[tuple[float, float, float | None]]] = {}
            first: dict[str, Any] = {}
            for row in outcome.rows:
                own = [each for each in _series(row) if (each["measure"], each["name"]) == (measure, name)]
                if own:
                    first = own[0]
                    lines[row.label] = _mean_curve([list(zip(each["x"], each["y"], strict=True)) for each in own])
            before = "before training: " if measure.startswith("start.") else ""
            words = measure.removeprefix("start.").replace("_", " ")
            title = f"{before}{words}" if name in words else f"{before}{words}, {name}"
            title += f" ({outcome.title})" if outcome.title else ""
            yield _chart(title, first["across"], first["up"], lines, log=first["log"])


def _learning_curves(found: Report, outcome: Outcome) -> Iterator[Chart]:
    """Yields a chart of the validation metric by step."""
    metric = found.plan.study.section.metric
    name = "validation_loss" if "." in metric else f"validation_{metric}"
    lines = {}
    for row in outcome.rows:
        curves = [result["curves"][name] for result in row.results.values() if name in result["curves"]]
        if curves:
            lines[row.label] = _mean_curve(curves)
    if any(len(points) > 1 for points in lines.values()):
        words = name.replace("_", " ")
        yield _chart(f"{words} ({outcome.title})" if outcome.title else words, "step", words, lines)


def _series(row: Row) -> list[dict[str, Any]]:
    return [each for result in row.results.values() for each in result["series"]]


def _mean_curve(curves: list[list[tuple[float, float]]]) -> list[tuple[float, float, float | None]]:
    """Averages curves over seeds, at the points where all have a value."""
    together: dict[float, list[float]] = {}
    for curve in curves:
        for x, y in curve:
            together.setdefault(x, []).append(y)
    estimates = {x: estimate(values) for x, values in together.items() if len(values) == len(curves)}
    return [(x, found.mean, found.half) for x, found in estimates.items()]


def _chart(
    title: str, x_label: str, y_label: str, lines: dict[str, list[tuple[float, float, float | None]]], log: bool = False
) -> Chart:
    xs = [point[0] for points in lines.values() for point in points]
    log_x = bool(xs) and min(xs) > 0 and max(xs) / min(xs) > MIN_LOG_RATIO and x_label != "step"
    return Chart(title, x_label, y_label, [Line(label, points) for label, points in lines.items()], log, log_x)


def _are_numeric(labels: list[str]) -> bool:
    try:
        return len({float(label) for label in labels}) > 1
    except ValueError:
        return False
