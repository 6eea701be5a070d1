"""Cost of a study: number and duration of its runs, including the runs of sweeps that were not chosen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit_study.cells import Cell
from kit_study.planning import Plan, result_of


@dataclass(frozen=True)
class StudyCost:
    """The number of runs and their total duration."""

    runs: int
    tried: int
    """Runs of sweeps that were not chosen."""
    training: float
    """Seconds of training steps."""
    wall: float | None
    """Seconds of training, evaluation and measures; None where a run did not record them."""

    @property
    def words(self) -> str:
        """The cost in one line."""
        runs = f"{self.runs} runs" + (f" ({self.tried} of them tried by a sweep and not chosen)" if self.tried else "")
        training = f"{self.training / 60:.1f} minutes of training"
        if self.wall is None:
            return f"{runs}, {training} in all, and evaluation and measures, which were not timed"
        return f"{runs}, {self.wall / 60:.1f} minutes in all with evaluation and measures, {training}"


def study_cost(plan: Plan) -> StudyCost:
    """Sums the cost of the runs that are done."""
    chosen: dict[Path, Cell] = {}
    swept: dict[Path, Cell] = {}
    for number in range(len(plan.combinations)):
        chosen |= {cell.folder: cell for cell in plan.cells(number) or ()}
        swept |= {cell.folder: cell for cell in plan.sweeps.get(number, ())}
    every = {folder: found for folder, cell in (swept | chosen).items() if (found := result_of(cell)) is not None}
    walls = [float(found["wall_seconds"]) for found in every.values() if "wall_seconds" in found]
    return StudyCost(
        len(every),
        len([folder for folder in every if folder not in chosen]),
        sum(float(found["seconds"]) for found in every.values()),
        sum(walls) if len(walls) == len(every) else None,
    )
