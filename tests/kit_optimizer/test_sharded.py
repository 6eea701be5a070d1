"""Every optimizer steps a model spread over two processes as it steps one in one piece, or says that it cannot."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_processes_step_as_one() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "plugins")])
    environment = os.environ | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "PYTHONPATH": paths,
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.kit_optimizer.sharded_sample"]
    processes = [
        subprocess.Popen([*command, str(rank)], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
        for rank in (0, 1)
    ]
    output = [process.communicate(timeout=90)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    found = dict(line.split() for line in output[0].splitlines())
    assert found.pop("adafactor") == "KitError"
    assert set(found) == {"adamw", "adam", "lion", "muon", "sgd"}
    for name, difference in found.items():
        assert float(difference) <= 1e-7, name
