"""Tensors that are spread over two processes are saved piece by piece and load whole on one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kit.checkpoints.manifest import Shard, assemble
from kit.files.atomic import DamagedCheckpoint

from .samples import any_store


def test_two_processes_save_and_one_loads(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    root = Path(__file__).parents[2]
    environment = os.environ | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "tests.checkpoints.sharded_sample", str(tmp_path)]
    processes = [subprocess.Popen([*command, str(rank)], cwd=root, env=environment) for rank in (0, 1)]
    assert [process.wait(timeout=60) for process in processes] == [0, 0]
    checkpoint = any_store(tmp_path).load_latest()
    whole = torch.arange(35.0).reshape(5, 7)
    assert torch.equal(checkpoint.weights["rows"], whole)
    assert torch.equal(checkpoint.weights["copied"], whole + 1)
    assert torch.equal(checkpoint.weights["plain"], torch.ones(2))
    assert torch.equal(checkpoint.training["state"][0]["average"], whole)
    assert [held["rank"] for held in checkpoint.own] == [0, 1]
    sizes = [(checkpoint.path / f"rank-{rank}.safetensors").stat().st_size for rank in (0, 1)]
    assert all(size < 4 * 4 * 35 + 1000 for size in sizes)


def test_pieces_that_do_not_make_a_whole_are_damage() -> None:
    left = Shard(torch.ones(2, 3), (4, 3), (0, 0))
    assert assemble("a", [left, Shard(torch.ones(2, 3), (4, 3), (2, 0))]).shape == (4, 3)
    for wrong in (
        [left],
        [left, left],
        [left, Shard(torch.ones(2, 3), (5, 3), (2, 0))],
        [left, Shard(torch.ones(2, 3), (4, 3), (3, 0))],
        [left, Shard(torch.ones(2, 3, dtype=torch.int8), (4, 3), (2, 0))],
    ):
        with pytest.raises(DamagedCheckpoint, match="'a'"):
            assemble("a", wrong)
