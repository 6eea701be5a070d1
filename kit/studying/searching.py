"""Search in place of a grid: Optuna proposes trials, its storage lets machines share them, each trial is a cell a seed.

A trial that a kill cut short on this machine is taken up again, with the values it had; one whose recipe cannot be is
told to the storage as failed, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kit.errors import RecipeError
from kit.studying.cells import Cell, cell_of, write_cell
from kit.studying.conducting import Say, unclaimed
from kit.studying.planning import Plan, result_of
from kit.studying.trials import Trials
from kit.studying.workers import ELSEWHERE, Workers

if TYPE_CHECKING:
    import optuna


def search(plan: Plan, *, jobs: int = 1, without: Sequence[str] = (), say: Say | None = None) -> int:
    """Run trials until the storage holds as many as are wanted; gives how many of them failed here.

    jobs: how many processes run cells side by side, and how many trials are proposed at a time.
    """
    with Workers(jobs, without) as workers:
        searcher = _Searcher(plan, jobs, workers, say or (lambda text: None))
        while batch := searcher.proposed():
            searcher.run(batch)
    return searcher.failed


class _Searcher:
    def __init__(self, plan: Plan, jobs: int, workers: Workers, say: Say) -> None:
        self.plan = plan
        self.jobs = jobs
        self.workers = workers
        self.say = say
        self.trials = Trials(plan)
        self.failed = 0

    def proposed(self) -> list[tuple[optuna.Trial, list[Cell]]]:
        """As many trials as run side by side, with their cells; fewer where fewer are left."""
        plan, found = self.plan, list[tuple["optuna.Trial", list[Cell]]]()
        while len(found) < self.jobs and (trial := self.trials.take()) is not None:
            each = self.trials.proposed(trial)
            try:
                cells = [cell_of(plan.study, plan.kit, each, seed, plan.root) for seed in plan.study.seeds]
            except RecipeError as error:
                self._fail(trial, each.title, str(error))
            else:
                found.append((trial, cells))
        return found

    def run(self, batch: Sequence[tuple[optuna.Trial, list[Cell]]]) -> None:
        """Run the cells of a few trials, and tell the storage of each trial when its last has ended."""
        undone = [cell for _, cells in batch for cell in cells if result_of(cell) is None]
        left = {cell.folder: cell for cell in unclaimed(undone)}
        for cell in left.values():
            write_cell(cell, self.plan.study, self.plan.kit)
        troubles = {cell.folder: ELSEWHERE for cell in undone if cell.folder not in left}
        waiting = set(left)
        told: set[int] = set()

        def tell() -> None:
            for trial, cells in batch:
                if trial.number not in told and not waiting & {cell.folder for cell in cells}:
                    told.add(trial.number)
                    mine = [troubles[cell.folder] for cell in cells if cell.folder in troubles]
                    self._tell(trial, cells, mine)

        def ended(folder: Path, trouble: str | None) -> None:
            waiting.discard(folder)
            if trouble is not None:
                troubles[folder] = trouble
            tell()

        if left:
            self.workers.run(list(left), ended)
        tell()

    def _tell(self, trial: optuna.Trial, cells: list[Cell], troubles: Sequence[str]) -> None:
        title = cells[0].combination.title
        if ELSEWHERE in troubles:
            self.say(f"trial {title}: {ELSEWHERE}")
            return
        if troubles:
            self._fail(trial, title, troubles[0])
            return
        results = {cell.seed: found for cell in cells if (found := result_of(cell)) is not None}
        metric = self.plan.study.section.metric
        name = metric if "." in metric else f"validation_{metric}"
        values = [float(result["figures"][name]) for result in results.values() if name in result["figures"]]
        if len(values) < len(cells):
            self._fail(trial, title, f"a search goes by {name}, and not every cell has measured that")
            return
        mean = sum(values) / len(values)
        self.trials.done(trial, mean, results)
        self.say(f"trial {title}  {metric} {mean:.4g} on validation")

    def _fail(self, trial: optuna.Trial, title: str, why: str) -> None:
        self.failed += 1
        self.trials.failed(trial, why)
        self.say(f"trial {title}  FAILED: {why.splitlines()[0]}")
