"""A study that is killed with kill -9 and started again gives the table of one that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kit.cli.console import screen
from kit_study.command import show
from kit_study.planning import Plan
from kit_study.results import report
from kit_study.runner import run_study
from kit_study.study_file import read_study

SLOW = {"training.steps": 60, "training.validate_every": 20, "training.checkpoint_every": 5}


def table(plan: Plan) -> dict:
    """Everything that a table shows but time."""
    data = report(plan).as_data()
    for outcome in data["outcomes"]:
        for row in outcome["rows"]:
            row.pop("seconds")
    return data


def test_an_interrupted_study_gives_the_same_table(write, kit, tmp_path):
    path = write(changes=SLOW, sweep={"values": [0.005, 0.02]}, seeds=2, measures=["gradient_by_layer"])
    whole = Plan(read_study(path, kit.registry), kit, tmp_path / "whole")
    run_study(whole)

    parts = Plan(read_study(path, kit.registry), kit, tmp_path / "parts")
    command = [sys.executable, "-m", "kit", "study", str(path), "--folder", str(tmp_path / "parts")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for_a_cell_halfway(tmp_path / "parts", process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until_free(tmp_path / "parts")
    assert not report(parts).complete
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert table(parts) == table(whole)
    show(report(parts), screen())


def wait_for_a_cell_halfway(folder: Path, process: subprocess.Popen, seconds: float = 300.0) -> None:
    """Until some cell has a checkpoint and no result, and at least one other is done."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        assert process.poll() is None, "the study ended before it was killed"
        done = {path.parent for path in folder.glob("*/cells/*/result.json")}
        begun = {path.parent for path in folder.glob("*/cells/*/metrics.csv")}
        halfway = [cell for cell in begun - done if len((cell / "metrics.csv").read_text().splitlines()) > 10]
        if done and halfway:
            return
        time.sleep(0.02)
    raise AssertionError("no cell got halfway")


def wait_until_free(folder: Path, seconds: float = 60.0) -> None:
    """Until the worker has noticed that its parent is gone."""
    from kit.runs.run_directory import is_run_claimed

    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        if not any(is_run_claimed(path.parent) for path in folder.glob("*/cells/*/recipe.yaml")):
            return
        time.sleep(0.1)
    raise AssertionError("a worker outlived its parent")


def test_a_worker_that_dies_takes_only_its_cell_with_it(write, kit, tmp_path):
    from kit_study.cells import write_cell
    from kit_study.workers import Workers

    plan = Plan(read_study(write(changes={"training.steps": 4000}), kit.registry), kit, tmp_path / "studies")
    first, second = plan.cells(0)
    short = Plan(read_study(write(), kit.registry), kit, tmp_path / "studies")
    third = short.cells(0)[0]
    for each, cell in ((plan, first), (short, third)):
        write_cell(cell, each.study, kit)
    del second
    ended: dict[Path, str | None] = {}
    workers = Workers(1)
    start = workers._start

    def start_and_kill_the_first():
        worker = start()
        if not ended:
            import threading

            threading.Thread(target=kill_when_training, args=(worker.process.pid, first.folder), daemon=True).start()
        return worker

    workers._start = start_and_kill_the_first
    workers.run([first.folder, third.folder], ended.__setitem__)
    assert "ended with -9" in ended[first.folder]
    assert ended[third.folder] is None
    assert json.loads((third.folder / "result.json").read_text())["steps"] == 6


def kill_when_training(pid: int, folder: Path) -> None:
    while not (folder / "metrics.csv").is_file():
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
