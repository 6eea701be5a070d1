"""What a study took: every run that is done, those included that a sweep tried and did not choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kit.studying.cells import Cell
from kit.studying.planning import Plan, result_of


@dataclass(frozen=True)
class Spent:
    """Runs and the time they took, as if one after another."""

    runs: int
    tried: int
    """How many of them a sweep tried and did not choose."""
    training: float
    """Seconds of training steps."""
    wall: float | None
    """Seconds of training, evaluation and measures; None where a run is older than this being written down."""

    @property
    def words(self) -> str:
        """In a line."""
        runs = f"{self.runs} runs" + (f" ({self.tried} of them tried by a sweep and not chosen)" if self.tried else "")
        training = f"{self.training / 60:.1f} minutes of training"
        if self.wall is None:
            return f"{runs}, {training} in all, and evaluation and measures, which were not timed"
        return f"{runs}, {self.wall / 60:.1f} minutes in all with evaluation and measures, {training}"


def spent(plan: Plan) -> Spent:
    """What the runs that are done took."""
    chosen: dict[Path, Cell] = {}
    swept: dict[Path, Cell] = {}
    for number in range(len(plan.combinations)):
        chosen |= {cell.folder: cell for cell in plan.cells(number) or ()}
        swept |= {cell.folder: cell for cell in plan.sweeps.get(number, ())}
    every = {folder: found for folder, cell in (swept | chosen).items() if (found := result_of(cell)) is not None}
    walls = [float(found["wall_seconds"]) for found in every.values() if "wall_seconds" in found]
    return Spent(
        len(every),
        len([folder for folder in every if folder not in chosen]),
        sum(float(found["seconds"]) for found in every.values()),
        sum(walls) if len(walls) == len(every) else None,
    )
