"""Small states for the tests of checkpoints, and a program that saves them until it is killed."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import torch

from kit.checkpoints.contents import Checkpoint, Snapshot
from kit.checkpoints.store import CheckpointStore, Retention

any_store = partial(CheckpointStore, check=lambda checkpoint: None)
"""A store of any state, and not only of that of a training."""


def state(step: int, size: int = 64) -> Snapshot:
    """A state in which every part tells the step it was made at."""
    weights = {
        "a.weight": torch.full((size, size), float(step)),
        "a.bias": torch.full((size,), step, dtype=torch.int64),
    }
    optimizer = {"state": {0: {"step": torch.tensor(float(step)), "average": torch.full((size, size), step * 0.5)}}}
    return Snapshot(
        weights, {"global_step": step, "optimizer_states": [optimizer]}, own={"generator": bytes([step % 256])}
    )


def is_complete(checkpoint: Checkpoint, size: int = 64) -> bool:
    """Whether all parts of a loaded checkpoint were made at its step."""
    step, wanted = checkpoint.step, state(checkpoint.step, size)
    held = checkpoint.training["optimizer_states"][0]["state"][0]
    return (
        all(torch.equal(checkpoint.weights[name], tensor) for name, tensor in wanted.weights.items())
        and checkpoint.training["global_step"] == step
        and bool(held["step"] == step)
        and torch.equal(held["average"], torch.full((size, size), step * 0.5))
        and checkpoint.own == [wanted.own]
    )


def save_until_killed(folder: str) -> None:
    """Save step after step, each one twice, so that kills also fall into a replacement."""
    store = CheckpointStore(Path(folder), run="a run", retention=Retention(last=2))
    step = max(store.steps(), default=0)
    print("ready", os.getpid(), flush=True)
    while True:
        step += 1
        store.save(step, state(step), score=float(step % 7))
        store.save(step, state(step), score=float(step % 7))
        print(step, flush=True)


def fork_on_demand(folder: str) -> None:
    """For every line read, fork a process that saves until it is killed; so torch is imported only once."""
    for _ in sys.stdin:
        process = os.fork()
        if process == 0:
            save_until_killed(folder)
        os.waitpid(process, 0)
        print("killed", flush=True)


if __name__ == "__main__":
    fork_on_demand(sys.argv[1])
