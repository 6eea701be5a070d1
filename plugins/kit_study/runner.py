"""Runner of a study: runs the cells that are not done, sweeps before seeds; a failed cell does not stop the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kit import is_run_claimed, write_text
from kit_study.cell_run import FAILURE
from kit_study.cells import Cell, write_cell
from kit_study.planning import Plan, failure_of, result_of
from kit_study.workers import POLL_SECONDS, RUN_ELSEWHERE, Workers, try_cell

Say = Callable[[str], None]


def run_study(plan: Plan, *, jobs: int = 0, without: Sequence[str] = (), say: Say | None = None) -> int:
    """Runs the cells that are not done and returns the number that failed.

    jobs: worker processes; 0 runs the cells in this process. without: plugins that workers leave out.
    """
    runner = _StudyRunner(plan, jobs, without, say or (lambda text: None))
    runner.run([cell for cells in plan.sweeps.values() for cell in cells])
    seed_cells: list[Cell] = []
    for number, each in enumerate(plan.combinations):
        cells = plan.cells(number)
        if cells is None:
            over = all(result_of(cell) or failure_of(cell) for cell in plan.sweeps[number])
            why = "no value of the sweep came to an end" if over else "another process is at its sweep"
            runner.say(f"{each.title}: {why}, so its seeds are left out")
        seed_cells += cells or []
    runner.run(seed_cells)
    return len(runner.failed)


class _StudyRunner:
    def __init__(self, plan: Plan, jobs: int, without: Sequence[str], say: Say) -> None:
        self.plan = plan
        self.jobs = jobs
        self.without = without
        self.say = say
        self.failed: set[Path] = set()

    def run(self, cells: Sequence[Cell]) -> None:
        """Runs the cells that are not done and not claimed by another process; retries failed ones."""
        by_folder = {cell.folder: cell for cell in cells}
        # Repeated until none is left, since another process may have abandoned a cell.
        while left := self._left(list(by_folder.values())):
            self._run([cell.folder for cell in left], by_folder)

    def _left(self, cells: Sequence[Cell]) -> list[Cell]:
        undone = [cell for cell in cells if result_of(cell) is None and cell.folder not in self.failed]
        left = unclaimed(undone)
        for cell in undone:
            if cell not in left:
                self.say(f"{cell.title}: {RUN_ELSEWHERE}")
        if left:
            self.say(f"{len(left)} cells to run, {len(cells) - len(undone)} done before")
        for cell in left:
            write_cell(cell, self.plan.study, self.plan.kit)
        return left

    def _run(self, folders: Sequence[Path], by_folder: Mapping[Path, Cell]) -> None:
        count = 0

        def ended(folder: Path, failure: str | None) -> None:
            nonlocal count
            count += 1
            self._report(by_folder[folder], failure, f"[{count}/{len(folders)}]")

        if self.jobs:
            Workers(self.jobs, self.without).run(folders, ended)
        else:
            for folder in folders:
                ended(folder, try_cell(folder, self.plan.kit))

    def _report(self, cell: Cell, failure: str | None, count: str) -> None:
        if failure == RUN_ELSEWHERE:
            self.say(f"{count} {cell.title}: {RUN_ELSEWHERE}")
            return
        if failure is not None:
            self.failed.add(cell.folder)
            if failure_of(cell) is None:  # the process died without a message
                write_text(cell.folder / FAILURE, failure + "\n")
            self.say(f"{count} {cell.title}  FAILED: {failure.splitlines()[0]}")
            return
        result = result_of(cell)
        assert result is not None
        value = result["figures"].get(self.plan.figure)
        shown = "" if value is None else f"  {self.plan.study.section.metric} {value:.4g}"
        self.say(f"{count} {cell.title}{shown}  {result['seconds']:.0f} s of training")


def unclaimed(cells: Sequence[Cell]) -> list[Cell]:
    """Returns the cells that no other process has claimed; waits briefly for orphaned workers to end."""
    limit = time.monotonic() + 4 * POLL_SECONDS
    while any(is_run_claimed(cell.folder) for cell in cells) and time.monotonic() < limit:
        time.sleep(POLL_SECONDS / 5)
    return [cell for cell in cells if not is_run_claimed(cell.folder)]
