"""Results of a study: for each condition the compared values with intervals, paired tests, costs and the winner."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from kit_study.planning import Plan, failure_of, result_of
from kit_study.statistics import Estimate, estimate, holm, paired_p, winner_p

LEVEL = 0.05
"""The significance level."""
TESTS = (
    "p: paired t-test against the base, adjusted for the number of comparisons (Holm); of a winner: the largest of its "
    "tests against the others, times half the number of values, since any of them could have come out best"
)
"""The legend of the p values."""


@dataclass
class Row:
    """One value of the compared axis under one condition, over its seeds."""

    label: str
    is_base: bool
    results: dict[int, dict[str, Any]]
    """The results by seed."""
    failures: list[str]
    missing: int
    """The number of seeds that are neither done nor failed."""
    swept: float | None = None
    values: dict[int, float] = field(default_factory=dict)
    """The metric by seed."""
    difference: Estimate | None = None
    """The difference to the base, paired by seed."""
    p: float | None = None
    """The p value of the difference, Holm-adjusted over the comparisons under the same condition."""

    @property
    def estimate(self) -> Estimate | None:
        """The metric over the seeds."""
        return estimate(list(self.values.values())) if self.values else None

    def mean(self, name: str) -> float | None:
        """Averages a cost, or another number of the results, over seeds."""
        numbers = [float(result[name]) for result in self.results.values() if name in result]
        return sum(numbers) / len(numbers) if numbers else None

    def figures(self) -> dict[str, Estimate]:
        """Returns the estimate of every figure, by name."""
        names = dict.fromkeys(name for result in self.results.values() for name in result["figures"])
        found = {}
        for name in names:
            numbers = [result["figures"][name] for result in self.results.values() if name in result["figures"]]
            found[name] = estimate(numbers)
        return found


@dataclass
class Outcome:
    """The result of one condition: its rows and their winner."""

    condition: tuple[tuple[str, str], ...]
    rows: list[Row]
    best: list[str] = field(default_factory=list)
    """The labels with the best mean: several if they are exactly equal, none without results."""
    lead_p: float | None = None
    """The p value of the winner against all others; None if it is undefined."""

    @property
    def winner(self) -> str | None:
        """The label of the best row; None for a tie."""
        return self.best[0] if len(self.best) == 1 else None

    @property
    def title(self) -> str:
        """The condition in words."""
        return ", ".join(f"{axis} {label}" for axis, label in self.condition)

    @property
    def verdict(self) -> str:
        """The winner and its significance, in words."""
        if not self.best:
            return "no result yet"
        if self.winner is None:
            *others, last = self.best
            return f"{', '.join(others)} and {last} are equal, and nobody wins"
        if len(self.rows) == 1:
            return f"only {self.winner} was tried"
        if self.lead_p is None:
            return f"{self.winner} is ahead; one seed says nothing about chance"
        if self.lead_p < LEVEL:
            return f"{self.winner} wins (p = {self.lead_p:.2g} against all others)"
        return f"{self.winner} is ahead, not significantly (p = {self.lead_p:.2g} against all others)"


@dataclass
class Report:
    """The results of a study."""

    plan: Plan
    outcomes: list[Outcome]

    @property
    def complete(self) -> bool:
        """Whether every cell is done or failed."""
        return not any(row.missing for outcome in self.outcomes for row in outcome.rows)

    def as_data(self) -> dict[str, Any]:
        """Returns the results as JSON data."""
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
    """Reports on the cells that are done or failed; the others count as missing."""
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
    return Report(plan, [_outcome(plan, condition, rows) for condition, rows in grouped.items()])


def _value(plan: Plan, result: dict[str, Any]) -> float | None:
    figures: dict[str, float] = result["figures"]
    return figures.get(plan.figure, figures.get(f"validation_{plan.figure}"))


def _outcome(plan: Plan, condition: tuple[tuple[str, str], ...], rows: list[Row]) -> Outcome:
    base = next((row for row in rows if row.is_base), None)
    p_values: list[float | None] = []
    for row in rows:
        differences = [] if base is None or row is base else _differences(row, base)
        row.difference = estimate(differences) if differences else None
        p_values.append(paired_p(differences))
    for row, p_value in zip(rows, holm(p_values), strict=True):
        row.p = p_value
    known = [row for row in rows if row.estimate is not None and math.isfinite(row.estimate.mean)]
    if not known:
        return Outcome(condition, rows)
    top = (max if plan.higher else min)(_mean(row) for row in known)
    best = [row for row in known if _mean(row) == top]
    others = [row for row in known if row is not best[0]]
    alone = len(best) == 1 and others
    lead_p = winner_p([paired_p(_differences(best[0], other)) for other in others]) if alone else None
    return Outcome(condition, rows, [row.label for row in best], lead_p)


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
        "p_against_others": outcome.lead_p,
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
