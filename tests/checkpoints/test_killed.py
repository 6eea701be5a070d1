"""A save that is killed at any moment leaves a complete checkpoint: the newest, or the one before."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .samples import any_store, is_complete

ROOT = Path(__file__).parents[2]


def kill_while_saving(folder: Path, temporary: Path, times: int, seed: int) -> None:
    chance = random.Random(seed)
    environment = os.environ | {"TMPDIR": str(temporary), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.checkpoints.samples", str(folder)]
    store = any_store(folder, run="a run")
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for attempt in range(times):
            process.stdin.write("another\n")
            process.stdin.flush()
            _, child = process.stdout.readline().split()
            time.sleep(chance.uniform(0.0, 0.1))
            os.kill(int(child), signal.SIGKILL)
            lines = list(iter(process.stdout.readline, "killed\n"))
            done = max((int(line) for line in lines), default=0)
            if done == 0 and not store.steps():
                continue  # killed before the first save was complete
            checkpoint = store.load_latest()
            assert is_complete(checkpoint), f"kill {attempt}: {checkpoint.path}"
            assert checkpoint.step >= done, f"kill {attempt}: {done} was saved, {checkpoint.step} was loaded"
        process.stdin.close()
    store.tidy()
    assert store.steps() and not [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.filterwarnings("ignore::kit.files.atomic.DamagedCheckpointWarning")
def test_killed_20_times(tmp_path: Path) -> None:
    kill_while_saving(tmp_path / "checkpoints", Path("/dev/shm"), times=20, seed=1)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::kit.files.atomic.DamagedCheckpointWarning")
@pytest.mark.parametrize("elsewhere", [False, True], ids=["same file system", "another file system"])
def test_killed_100_times(tmp_path: Path, elsewhere: bool) -> None:
    kill_while_saving(tmp_path / "checkpoints", Path("/dev/shm") if elsewhere else tmp_path, times=100, seed=2)
