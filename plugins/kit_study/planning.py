"""Plan of a study: its cells, their results, and the values that sweeps have chosen."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kit import KitError
from kit_study.budget import equalized
from kit_study.cell_run import FAILURE, RESULT
from kit_study.cells import Cell, Combination, cell_of, combinations
from kit_study.study_file import Study

if TYPE_CHECKING:
    from kit import Kit

ROOT = Path("studies")


@dataclass(frozen=True)
class Plan:
    """A study and the folder of its results."""

    study: Study
    kit: Kit
    root: Path = ROOT

    @property
    def folder(self) -> Path:
        """The folder of the study."""
        return self.root / self.study.name

    @cached_property
    def combinations(self) -> list[Combination]:
        """All combinations of labels, equalized by the budget; for a search, its trials."""
        if self.study.section.search is not None:
            from kit_study.trials import all_trials

            return all_trials(self)
        found = combinations(self.study, self.kit)
        return equalized(self.study, self.kit, found, self.folder / "budget.json")

    @cached_property
    def sweeps(self) -> dict[int, list[Cell]]:
        """The sweep cells of each combination, by its number: one for each value, with the first seed."""
        found = {}
        for number, each in enumerate(self.combinations):
            values = self._swept(each)
            if values:
                found[number] = [self._cell(number, self.study.seeds[0], value) for value in values]
        return found

    def _swept(self, each: Combination) -> list[float]:
        sweep = each.section.sweep
        if sweep is None or not each.section.trains:
            return []
        if not self.study.quick:
            return sweep.values
        return each.section.quick.sweep or sweep.values[:2]

    def chosen(self, number: int) -> Cell | None:
        """Returns the best cell of a sweep on validation; None until all of its cells have ended."""
        results = [(cell, result_of(cell)) for cell in self.sweeps[number]]
        if not all(result is not None or failure_of(cell) for cell, result in results):
            return None
        sign = -1 if self.higher else 1
        metric = self.study.section.metric
        name = "validation_" + ("loss" if "." in metric else metric)
        sign = 1 if name == "validation_loss" else sign
        measured = [(cell, result["figures"].get(name)) for cell, result in results if result]
        known = [(sign * value, cell) for cell, value in measured if value is not None]
        if measured and not known:
            raise KitError(f"a sweep is decided by {name}, and no cell has measured that\n    leave sweep out")
        return min(known, key=lambda pair: pair[0])[1] if known else None

    def cells(self, number: int) -> list[Cell] | None:
        """Returns a cell for each seed of a combination; None while its sweep is running."""
        value = None
        if number in self.sweeps:
            best = self.chosen(number)
            if best is None:
                return None
            value = best.swept
        return [self._cell(number, seed, value) for seed in self.study.seeds]

    def _cell(self, number: int, seed: int, value: float | None = None) -> Cell:
        """Returns the cell of a combination, cached, since building it validates its recipe."""
        key = number, seed, value
        if key not in self._cells:
            self._cells[key] = cell_of(self.study, self.kit, self.combinations[number], seed, self.root, value)
        return self._cells[key]

    @cached_property
    def _cells(self) -> dict[tuple[int, int, float | None], Cell]:
        return {}

    @property
    def higher(self) -> bool:
        """Whether a higher figure is better."""
        section = self.study.section
        if section.better is not None:
            return section.better == "higher"
        if section.metric == "loss":
            return False
        return not getattr(self.kit.registry.find("metric", section.metric).component, "lower_is_better", True)

    @property
    def figure(self) -> str:
        """The name of the compared figure in results."""
        section = self.study.section
        return f"validation_{section.metric}" if section.split == "validation" else section.metric


def result_of(cell: Cell) -> dict[str, Any] | None:
    """Reads the result of a cell; None if it is not done."""
    try:
        found: dict[str, Any] = json.loads((cell.folder / RESULT).read_text())
    except (OSError, ValueError):
        return cell.combination.known.get(cell.seed)
    return found


def failure_of(cell: Cell) -> str | None:
    """Reads the error message of a failed cell; None if it did not fail."""
    try:
        return (cell.folder / FAILURE).read_text().strip()
    except OSError:
        return cell.combination.failure
