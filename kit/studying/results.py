"""What a study found: for each condition the values side by side, with intervals, paired tests, costs and a winner."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from kit.studying.planning import Plan, failure_of, result_of
from kit.studying.statistics import Estimate, estimate, holm, paired_p, picked_p

LEVEL = 0.05
"""A difference less likely than this by chance is called significant."""
TESTS = (
    "p: paired t-test against the base, adjusted for the number of comparisons (Holm); of a winner: the largest of its "
    "tests against the others, times half the number of values, since any of them could have come out best"
)
"""What the probabilities in a table are."""


@dataclass
class Row:
    """One value of the compared axis under one condition, over its seeds."""

    label: str
    is_base: bool
    results: dict[int, dict[str, Any]]
    """What came of each seed that is done."""
    failures: list[str]
    missing: int
    """How many seeds are neither done nor failed."""
    swept: float | None = None
    values: dict[int, float] = field(default_factory=dict)
    """The metric by seed."""
    difference: Estimate | None = None
    """To the base, paired by seed."""
    p: float | None = None
    """Of that difference, adjusted for the number of comparisons under the same condition (Holm)."""

    @property
    def estimate(self) -> Estimate | None:
        """The metric over the seeds."""
        return estimate(list(self.values.values())) if self.values else None

    def mean(self, name: str) -> float | None:
        """The mean of a cost or another number that each result has."""
        numbers = [float(result[name]) for result in self.results.values() if name in result]
        return sum(numbers) / len(numbers) if numbers else None

    def figures(self) -> dict[str, Estimate]:
        """Everything that was measured, by name."""
        names = dict.fromkeys(name for result in self.results.values() for name in result["figures"])
        found = {}
        for name in names:
            numbers = [result["figures"][name] for result in self.results.values() if name in result["figures"]]
            found[name] = estimate(numbers)
        return found


@dataclass
class Outcome:
    """One condition."""

    condition: tuple[tuple[str, str], ...]
    rows: list[Row]
    best: list[str] = field(default_factory=list)
    """The best mean; several where they are exactly equal, none where nothing is known yet."""
    margin: float | None = None
    """How likely the winner's lead over all others is by chance; None where that cannot be said."""

    @property
    def winner(self) -> str | None:
        """Who is best; None where nobody is alone."""
        return self.best[0] if len(self.best) == 1 else None

    @property
    def title(self) -> str:
        """The condition in words."""
        return ", ".join(f"{axis} {label}" for axis, label in self.condition)

    @property
    def verdict(self) -> str:
        """Who won, and whether that is more than chance."""
        if not self.best:
            return "no result yet"
        if self.winner is None:
            *others, last = self.best
            return f"{', '.join(others)} and {last} are equal, and nobody wins"
        if len(self.rows) == 1:
            return f"only {self.winner} was tried"
        if self.margin is None:
            return f"{self.winner} is ahead; one seed says nothing about chance"
        if self.margin < LEVEL:
            return f"{self.winner} wins (p = {self.margin:.2g} against all others)"
        return f"{self.winner} is ahead, not significantly (p = {self.margin:.2g} against all others)"


@dataclass
class Report:
    """A whole study."""

    plan: Plan
    outcomes: list[Outcome]

    @property
    def complete(self) -> bool:
        """Whether every cell has come to an end."""
        return not any(row.missing for outcome in self.outcomes for row in outcome.rows)

    def as_data(self) -> dict[str, Any]:
        """For programs."""
        section = self.plan.study.section
        return {
            "study": self.plan.study.name,
            "claim": section.claim,
            "metric": section.metric,
            "better": "higher" if self.plan.higher else "lower",
            "base": self.plan.study.base_label(),
            "complete": self.complete,
            "outcomes": [_outcome_data(outcome) for outcome in self.outcomes],
        }


def report(plan: Plan) -> Report:
    """Gather what is there; cells that are not done are counted as missing."""
    study = plan.study
    grouped: dict[tuple[tuple[str, str], ...], list[Row]] = {}
    for number, each in enumerate(plan.combinations):
        label = each.labels.get(study.compared or "", "all")
        cells = plan.cells(number)
        done = {cell.seed: found for cell in cells or () if (found := result_of(cell)) is not None}
        tried = {cell.folder: cell for cell in [*plan.sweeps.get(number, ()), *(cells or ())]}
        failed = {folder: why for folder, cell in tried.items() if not result_of(cell) and (why := failure_of(cell))}
        failures = [f"{tried[folder].title}: {why}" for folder, why in failed.items()]
        left = [cell for cell in cells or () if cell.folder not in failed and cell.seed not in done]
        over = cells is None and len(failed) == len(tried) > 0
        missing = len(left) if cells is not None else 0 if over else len(study.seeds)
        row = Row(label, label == study.base_label(), done, failures, missing, cells[0].swept if cells else None)
        row.values = {seed: value for seed, found in done.items() if (value := _value(plan, found)) is not None}
        grouped.setdefault(each.condition(study.compared), []).append(row)
    return Report(plan, [_judged(plan, condition, rows) for condition, rows in grouped.items()])


def _value(plan: Plan, result: dict[str, Any]) -> float | None:
    figures: dict[str, float] = result["figures"]
    return figures.get(plan.figure, figures.get(f"validation_{plan.figure}"))


def _judged(plan: Plan, condition: tuple[tuple[str, str], ...], rows: list[Row]) -> Outcome:
    base = next((row for row in rows if row.is_base), None)
    chances: list[float | None] = []
    for row in rows:
        differences = [] if base is None or row is base else _differences(row, base)
        row.difference = estimate(differences) if differences else None
        chances.append(paired_p(differences))
    for row, chance in zip(rows, holm(chances), strict=True):
        row.p = chance
    known = [row for row in rows if row.estimate is not None and math.isfinite(row.estimate.mean)]
    if not known:
        return Outcome(condition, rows)
    top = (max if plan.higher else min)(_mean(row) for row in known)
    best = [row for row in known if _mean(row) == top]
    others = [row for row in known if row is not best[0]]
    alone = len(best) == 1 and others
    margin = picked_p([paired_p(_differences(best[0], other)) for other in others]) if alone else None
    return Outcome(condition, rows, [row.label for row in best], margin)


def _mean(row: Row) -> float:
    assert row.estimate is not None
    return row.estimate.mean


def _differences(row: Row, base: Row) -> list[float]:
    return [row.values[seed] - base.values[seed] for seed in row.values if seed in base.values]


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    return {
        "condition": dict(outcome.condition),
        "winner": outcome.winner,
        "equal": outcome.best if outcome.winner is None else [],
        "p_against_others": outcome.margin,
        "rows": [
            {
                "label": row.label,
                "base": row.is_base,
                "values": {str(seed): value for seed, value in row.values.items()},
                "mean": row.estimate.mean if row.estimate else None,
                "half_interval": row.estimate.half if row.estimate else None,
                "difference": row.difference.mean if row.difference else None,
                "p": row.p,
                "swept": row.swept,
                "parameters": row.mean("parameters"),
                "flops": row.mean("flops"),
                "seconds": row.mean("seconds"),
                "steps": row.mean("steps"),
                "figures": {name: found.mean for name, found in row.figures().items()},
                "failures": row.failures,
                "missing": row.missing,
            }
            for row in outcome.rows
        ],
    }
