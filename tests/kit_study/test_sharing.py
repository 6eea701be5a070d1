"""Two processes on one study folder: a cell is run by one of them, and the other leaves it be."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from kit.runs.run_directory import RunDirectory, claim_run
from kit_study import runner as conducting
from kit_study.cells import Cell, write_cell
from kit_study.planning import failure_of, result_of
from kit_study.results import report
from kit_study.runner import run_study
from kit_study.workers import RUN_ELSEWHERE, try_cell


@contextmanager
def another_process_at(cell: Cell, made):
    """Claims are of open files, so that a second claim in this process is refused as another's would be."""
    write_cell(cell, made.study, made.kit)
    with claim_run(RunDirectory(cell.folder)):
        yield


def test_a_claimed_cell_is_left_alone_and_no_failure_is_written(plan, kit):
    made = plan(seeds=1)
    (cell,) = made.cells(0)
    with another_process_at(cell, made):
        assert try_cell(cell.folder, kit) == RUN_ELSEWHERE
    assert failure_of(cell) is None and result_of(cell) is None


def test_a_cell_that_is_taken_after_the_look_is_left_alone_too(plan, kit, monkeypatch):
    made = plan(seeds=1)
    (cell,) = made.cells(0)
    answers = iter([False, True])
    monkeypatch.setattr("kit.runs.run_directory.is_run_claimed", lambda path: next(answers))
    with another_process_at(cell, made):
        assert try_cell(cell.folder, kit) == RUN_ELSEWHERE
    assert failure_of(cell) is None


def test_a_cell_that_was_done_elsewhere_in_the_meantime_is_not_run_again(plan, kit):
    made = plan(seeds=1)
    run_study(made)
    (cell,) = made.cells(0)
    before = (cell.folder / "result.json").stat().st_mtime_ns
    assert try_cell(cell.folder, kit) is None
    assert (cell.folder / "result.json").stat().st_mtime_ns == before


def test_what_another_process_takes_later_is_no_failure(plan, monkeypatch):
    """The claim is made after the first look at all cells, when the cell before it has ended."""
    made = plan(seeds=1)
    (first,), (second,) = made.cells(0), made.cells(1)
    held = another_process_at(second, made)

    def attempted(folder: Path, kit) -> str | None:
        if folder == first.folder:
            held.__enter__()
        return try_cell(folder, kit)

    monkeypatch.setattr(conducting, "try_cell", attempted)
    said: list[str] = []
    assert run_study(made, say=said.append) == 0
    held.__exit__(None, None, None)
    assert f"[2/2] {second.title}: {RUN_ELSEWHERE}" in said
    assert result_of(first) is not None and failure_of(second) is None and not report(made).complete
    assert run_study(made) == 0 and report(made).complete


def test_seeds_wait_for_a_sweep_that_another_process_is_at(plan):
    made = plan(sweep={"values": [0.01, 0.02]}, axes={"norm": {"path": "model.norm", "values": ["layer"]}}, seeds=2)
    said: list[str] = []
    with another_process_at(made.sweeps[0][1], made):
        assert run_study(made, say=said.append) == 0
    assert "layer: another process is at its sweep, so its seeds are left out" in said
    assert made.chosen(0) is None
    assert run_study(made) == 0 and report(made).complete


def test_two_processes_share_a_study(write, tmp_path):
    path = write(changes={"training.steps": 30}, seeds=1)
    command = [sys.executable, "-m", "kit", "study", str(path), "--folder", str(tmp_path / "studies")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert not list(tmp_path.rglob("failure.txt")) and "FAILED" not in "".join(said)
