"""Run folders: numbers are given once, runs are found by what people type, and one process trains a run at a time."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from kit.checkpoints.contents import Snapshot
from kit.checkpoints.store import CheckpointStore
from kit.runs.metrics_file import list_runs
from kit.runs.run_directory import RunDirectory, RunError, claim_run


def a_run(root: Path, name: str = "pronounce") -> RunDirectory:
    run = RunDirectory.create(name, root)
    run.write(run.recipe, "name: x\n")
    return run


def test_many_that_start_at_once_get_a_folder_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        runs = list(pool.map(lambda _: RunDirectory.create("copy", tmp_path), range(64)))
    assert sorted(run.number for run in runs) == list(range(1, 65))


def test_numbers_go_on_after_the_highest(tmp_path: Path) -> None:
    (tmp_path / "copy" / "7").mkdir(parents=True)
    (tmp_path / "copy" / "notes").mkdir()
    run = RunDirectory.create("copy", tmp_path)
    assert (run.number, run.name, run.label) == (8, "copy", "copy/8")
    assert run.tokenizer.is_dir() and run.checkpoints.is_dir() and run.reports.is_dir()


@pytest.mark.parametrize("name", ["", "..", "a/b", "/etc", "-x", "a b"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match="cannot be called"):
        RunDirectory.create(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_run_is_found_by_folder_label_or_name(tmp_path: Path) -> None:
    first, second = a_run(tmp_path), a_run(tmp_path)
    RunDirectory.create("pronounce", tmp_path)  # stopped before its recipe was written
    assert RunDirectory.open(first.path, tmp_path).path == first.path
    assert RunDirectory.open("pronounce/1", tmp_path).path == first.path
    assert RunDirectory.open("pronounce", tmp_path).path == second.path
    with pytest.raises(RunError, match=r"no recipe\.yaml"):
        RunDirectory.open("pronounce/3", tmp_path)


def test_runs_are_counted_as_they_are_listed(tmp_path: Path) -> None:
    for count in (1, 2, 3):
        a_run(tmp_path, "copy" if count == 3 else "pronounce")
        with pytest.raises(RunError, match=f"holds {count} runs?; `kit runs` lists") as error:
            RunDirectory.open("zzz", tmp_path)
        assert len(list_runs(tmp_path)) == count and ("1 runs" in str(error.value)) is False


def test_a_run_that_is_not_there_is_answered_with_the_nearest(tmp_path: Path) -> None:
    a_run(tmp_path)
    with pytest.raises(RunError, match=r"no run 'pronouce'. Nearest: pronounce"):
        RunDirectory.open("pronouce", tmp_path)
    with pytest.raises(RunError, match="no runs"):
        RunDirectory.open("x", tmp_path / "empty")


def test_a_moved_run_still_opens(tmp_path: Path) -> None:
    run = a_run(tmp_path / "runs")
    moved = run.path.rename(tmp_path / "elsewhere")
    assert RunDirectory.open(moved).recipe.read_text() == "name: x\n"


def test_the_list_says_how_far_each_run_is(tmp_path: Path) -> None:
    new, half, done = a_run(tmp_path, "a"), a_run(tmp_path, "a"), a_run(tmp_path, "b")
    CheckpointStore(half.checkpoints).save(1200, Snapshot({"w": torch.ones(1)}))
    done.weights.touch()
    with claim_run(new):
        found = [(run.label, run.step, run.state) for run in list_runs(tmp_path)]
    assert found == [("a/1", None, "running"), ("a/2", 1200, "stopped"), ("b/1", None, "finished")]
    assert list_runs(tmp_path)[0].state == "stopped"


def test_a_run_is_trained_by_one_process_at_a_time(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    program = (
        "import sys; from pathlib import Path; from kit.runs.run_directory import claim_run;"
        "from kit.runs.run_directory import RunDirectory as R\n"
        "with claim_run(R(Path(sys.argv[1]))): print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(run.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "held\n"
        with pytest.raises(RunError, match=f"being trained by process {other.pid} on"), claim_run(run):
            pass
        other.kill()
        other.wait()
    (run.path / ".recipe.yaml.0123abcd.tmp").touch()
    with claim_run(run):  # the claim ended with the process
        assert not list(run.path.glob("*.tmp"))


def test_listing_runs_does_not_import_torch() -> None:
    program = "import sys, kit.runs.metrics_file, kit.runs.lock; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
