"""Hyperparameter search: Optuna proposes trials, machines share its storage, and a trial is a cell for each seed.

An interrupted trial of this machine is resumed with its values; a trial with an invalid recipe is stored as failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kit import RecipeError
from kit_study.cells import Cell, cell_of, write_cell
from kit_study.planning import Plan, result_of
from kit_study.runner import Say, unclaimed
from kit_study.trials import Trials
from kit_study.workers import RUN_ELSEWHERE, Workers

if TYPE_CHECKING:
    import optuna


def search(plan: Plan, *, jobs: int = 1, without: Sequence[str] = (), say: Say | None = None) -> int:
    """Runs trials until the storage holds the wanted number, and returns how many failed here.

    jobs: the number of worker processes, and of trials that are proposed at a time.
    """
    with Workers(jobs, without) as workers:
        searcher = _Searcher(plan, jobs, workers, say or (lambda text: None))
        while batch := searcher.propose():
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

    def propose(self) -> list[tuple[optuna.Trial, list[Cell]]]:
        """Proposes the next trials with their cells, at most one for each worker process."""
        plan, found = self.plan, list[tuple["optuna.Trial", list[Cell]]]()
        while len(found) < self.jobs and (trial := self.trials.claim()) is not None:
            each = self.trials.propose(trial)
            try:
                cells = [cell_of(plan.study, plan.kit, each, seed, plan.root) for seed in plan.study.seeds]
            except RecipeError as error:
                self._fail(trial, each.title, str(error))
            else:
                found.append((trial, cells))
        return found

    def run(self, batch: Sequence[tuple[optuna.Trial, list[Cell]]]) -> None:
        """Runs the cells of trials, and stores the result of each trial when its last cell has ended."""
        undone = [cell for _, cells in batch for cell in cells if result_of(cell) is None]
        left = {cell.folder: cell for cell in unclaimed(undone)}
        for cell in left.values():
            write_cell(cell, self.plan.study, self.plan.kit)
        failures = {cell.folder: RUN_ELSEWHERE for cell in undone if cell.folder not in left}
        waiting = set(left)
        stored: set[int] = set()

        def store() -> None:
            for trial, cells in batch:
                if trial.number not in stored and not waiting & {cell.folder for cell in cells}:
                    stored.add(trial.number)
                    own = [failures[cell.folder] for cell in cells if cell.folder in failures]
                    self._store(trial, cells, own)

        def ended(folder: Path, failure: str | None) -> None:
            waiting.discard(folder)
            if failure is not None:
                failures[folder] = failure
            store()

        if left:
            self.workers.run(list(left), ended)
        store()

    def _store(self, trial: optuna.Trial, cells: list[Cell], failures: Sequence[str]) -> None:
        title = cells[0].combination.title
        if RUN_ELSEWHERE in failures:
            self.say(f"trial {title}: {RUN_ELSEWHERE}")
            return
        if failures:
            self._fail(trial, title, failures[0])
            return
        results = {cell.seed: found for cell in cells if (found := result_of(cell)) is not None}
        metric = self.plan.study.section.metric
        name = metric if "." in metric else f"validation_{metric}"
        values = [float(result["figures"][name]) for result in results.values() if name in result["figures"]]
        if len(values) < len(cells):
            self._fail(trial, title, f"a search goes by {name}, and not every cell has measured that")
            return
        mean = sum(values) / len(values)
        self.trials.complete(trial, mean, results)
        self.say(f"trial {title}  {metric} {mean:.4g} on validation")

    def _fail(self, trial: optuna.Trial, title: str, why: str) -> None:
        self.failed += 1
        self.trials.fail(trial, why)
        self.say(f"trial {title}  FAILED: {why.splitlines()[0]}")
