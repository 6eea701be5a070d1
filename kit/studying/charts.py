"""Which charts a study has: its metric over a condition of numbers, training curves, and what measures drew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kit.studying.drawing import Chart, Line
from kit.studying.results import Outcome, Report, Row
from kit.studying.statistics import estimate

WIDE = 20.0
"""An axis whose ends are further apart than this factor is drawn on a logarithmic scale."""


def charts(found: Report) -> Iterator[Chart]:
    """Every chart, the most telling first."""
    yield from _over_conditions(found)
    yield from _measured(found)
    for outcome in found.outcomes:
        yield from _learning(found, outcome)


def _over_conditions(found: Report) -> Iterator[Chart]:
    """The metric over each other axis whose labels are numbers, for each choice of the rest."""
    study, metric = found.plan.study, found.plan.study.section.metric
    axes = [name for name in study.labels() if name != study.compared]
    numeric = [name for name in axes if _numbers(list(study.labels()[name]))]
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
    if _numbers(list(compared)):
        groups: dict[str, list[tuple[float, float, float | None]]] = {}
        for outcome in found.outcomes:
            for row in outcome.rows:
                if row.estimate is not None:
                    point = (float(row.label), row.estimate.mean, row.estimate.half)
                    groups.setdefault(outcome.title or metric, []).append(point)
        yield _chart(f"{metric} over {study.compared}", str(study.compared), metric, groups)


def _measured(found: Report) -> Iterator[Chart]:
    """What each measure drew, all values of the compared axis in one chart."""
    for outcome in found.outcomes:
        names = dict.fromkeys(
            (each["measure"], each["name"]) for row in outcome.rows for each in _series(row) if len(each["x"]) > 1
        )
        for measure, name in names:
            lines: dict[str, list[tuple[float, float, float | None]]] = {}
            about: dict[str, Any] = {}
            for row in outcome.rows:
                mine = [each for each in _series(row) if (each["measure"], each["name"]) == (measure, name)]
                if mine:
                    about = mine[0]
                    lines[row.label] = _averaged([list(zip(each["x"], each["y"], strict=True)) for each in mine])
            before = "before training: " if measure.startswith("start.") else ""
            words = measure.removeprefix("start.").replace("_", " ")
            title = f"{before}{words}" if name in words else f"{before}{words}, {name}"
            title += f" ({outcome.title})" if outcome.title else ""
            yield _chart(title, about["across"], about["up"], lines, log=about["log"])


def _learning(found: Report, outcome: Outcome) -> Iterator[Chart]:
    """The validation figure over the steps."""
    metric = found.plan.study.section.metric
    name = "validation_loss" if "." in metric else f"validation_{metric}"
    lines = {}
    for row in outcome.rows:
        curves = [result["curves"][name] for result in row.results.values() if name in result["curves"]]
        if curves:
            lines[row.label] = _averaged(curves)
    if any(len(points) > 1 for points in lines.values()):
        words = name.replace("_", " ")
        yield _chart(f"{words} ({outcome.title})" if outcome.title else words, "step", words, lines)


def _series(row: Row) -> list[dict[str, Any]]:
    return [each for result in row.results.values() for each in result["series"]]


def _averaged(curves: list[list[tuple[float, float]]]) -> list[tuple[float, float, float | None]]:
    """The mean over seeds wherever all have a value."""
    together: dict[float, list[float]] = {}
    for curve in curves:
        for x, y in curve:
            together.setdefault(x, []).append(y)
    whole = {x: estimate(values) for x, values in together.items() if len(values) == len(curves)}
    return [(x, found.mean, found.half) for x, found in whole.items()]


def _chart(
    title: str, across: str, up: str, lines: dict[str, list[tuple[float, float, float | None]]], *, log: bool = False
) -> Chart:
    xs = [point[0] for points in lines.values() for point in points]
    wide = bool(xs) and min(xs) > 0 and max(xs) / min(xs) > WIDE and across != "step"
    return Chart(title, across, up, [Line(label, points) for label, points in lines.items()], log, wide)


def _numbers(labels: list[str]) -> bool:
    try:
        return len({float(label) for label in labels}) > 1
    except ValueError:
        return False
