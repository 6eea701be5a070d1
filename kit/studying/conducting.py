"""Runs a study: cells that are not done yet, sweeps before seeds; what goes wrong with one leaves the others be."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kit.runs.atomic import write_text
from kit.runs.claim import is_claimed
from kit.studying.cells import Cell, write_cell
from kit.studying.planning import Plan, failure_of, result_of
from kit.studying.running import FAILURE
from kit.studying.workers import ELSEWHERE, WATCHED, Workers, attempt

Say = Callable[[str], None]


def conduct(plan: Plan, *, jobs: int = 0, without: Sequence[str] = (), say: Say | None = None) -> int:
    """Run everything that is left of a study; gives how many cells failed.

    jobs: how many processes run cells side by side; 0 runs them in this one. without: plugins that they leave out.
    """
    conductor = _Conductor(plan, jobs, without, say or (lambda text: None))
    conductor.run([cell for cells in plan.sweeps.values() for cell in cells])
    final: list[Cell] = []
    for number, each in enumerate(plan.combinations):
        cells = plan.cells(number)
        if cells is None:
            over = all(result_of(cell) or failure_of(cell) for cell in plan.sweeps[number])
            why = "no value of the sweep came to an end" if over else "another process is at its sweep"
            conductor.say(f"{each.title}: {why}, so its seeds are left out")
        final += cells or []
    conductor.run(final)
    return len(conductor.failed)


class _Conductor:
    def __init__(self, plan: Plan, jobs: int, without: Sequence[str], say: Say) -> None:
        self.plan = plan
        self.jobs = jobs
        self.without = without
        self.say = say
        self.failed: set[Path] = set()

    def run(self, cells: Sequence[Cell]) -> None:
        """Those that are not done, and that no other process is at; cells that failed before are tried again."""
        by_folder = {cell.folder: cell for cell in cells}
        # Looked at anew until nothing is left, since what another process was at may have been given up.
        while left := self._left(list(by_folder.values())):
            self._run([cell.folder for cell in left], by_folder)

    def _left(self, cells: Sequence[Cell]) -> list[Cell]:
        undone = [cell for cell in cells if result_of(cell) is None and cell.folder not in self.failed]
        left = unclaimed(undone)
        for cell in undone:
            if cell not in left:
                self.say(f"{cell.title}: {ELSEWHERE}")
        if left:
            self.say(f"{len(left)} cells to run, {len(cells) - len(undone)} done before")
        for cell in left:
            write_cell(cell, self.plan.study, self.plan.kit)
        return left

    def _run(self, folders: Sequence[Path], by_folder: Mapping[Path, Cell]) -> None:
        count = 0

        def ended(folder: Path, trouble: str | None) -> None:
            nonlocal count
            count += 1
            self._tell(by_folder[folder], trouble, f"[{count}/{len(folders)}]")

        if self.jobs:
            Workers(self.jobs, self.without).run(folders, ended)
        else:
            for folder in folders:
                ended(folder, attempt(folder, self.plan.kit))

    def _tell(self, cell: Cell, trouble: str | None, count: str) -> None:
        if trouble == ELSEWHERE:
            self.say(f"{count} {cell.title}: {ELSEWHERE}")
            return
        if trouble is not None:
            self.failed.add(cell.folder)
            if failure_of(cell) is None:  # the process died before it could say why
                write_text(cell.folder / FAILURE, trouble + "\n")
            self.say(f"{count} {cell.title}  FAILED: {trouble.splitlines()[0]}")
            return
        result = result_of(cell)
        assert result is not None
        value = result["figures"].get(self.plan.figure)
        shown = "" if value is None else f"  {self.plan.study.section.metric} {value:.4g}"
        self.say(f"{count} {cell.title}{shown}  {result['seconds']:.0f} s of training")


def unclaimed(cells: Sequence[Cell]) -> list[Cell]:
    """Those that no other process is at; a worker whose parent was killed is given a moment to notice."""
    limit = time.monotonic() + 4 * WATCHED
    while any(is_claimed(cell.folder) for cell in cells) and time.monotonic() < limit:
        time.sleep(WATCHED / 5)
    return [cell for cell in cells if not is_claimed(cell.folder)]
