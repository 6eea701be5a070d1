"""One of two processes that share each layer of a few models in turn; in between, the first trains alone.

All in the same two processes, because starting them takes longer than what they do.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kit import Kit
from kit.distributed.rank_info import RankInfo
from kit.runs.run_directory import RunDirectory
from kit.training.progress import SilentReporter
from kit.training.train import new_run, train

SHARED = ("training.devices=2", "training.strategy=fsdp", "training.tensor_parallel=2")
ALONE = ("training.devices=1", "training.strategy=auto", "training.tensor_parallel=1")
MIXED = (
    "model.dropout=0.1",
    "model.position=t5",
    "model.encoder.attention={use: softmax, heads: 4, kv_heads: 2}",
    "model.encoder.feedforward={use: swiglu, ffn_multiplier: 3}",
    "model.decoder.cross_attention={use: talking_heads, heads: 2}",
    "model.decoder.feedforward={use: mixture, expert: {use: gelu, ffn_multiplier: 2}, experts: 2}",
    "training.optimizer={use: sgd, learning_rate: 0.5}",
    "training.average={ema: 0.9}",
    "training.accumulate_steps=2",
    "training.steps=12",
)
"""Learns a bias of every head, and has parts that stay whole, parts in parts, and dropout of what all have whole."""


class StopAfter(SilentReporter):
    """A person who presses Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        self.last = step

    def step(self, step: int, figures: object) -> None:
        if step == self.last:
            os.kill(os.getpid(), signal.SIGINT)


def go(run: Path, *changes: str, stop: int = 0) -> None:
    """Begin a run, or go on with it, alone or together as the changes say."""
    known = dict(os.environ)
    rank_info = RankInfo.from_environment()
    if ALONE[0] in changes:
        if rank_info is not None and not rank_info.is_main:
            return
        for name in rank_info.environment() if rank_info is not None else ():
            os.environ.pop(name, None)
    else:
        os.environ["MASTER_PORT"] = PORTS.pop()  # the last meeting's store may still be there
    recipe = KIT.recipe(run / "recipe.yaml" if run.is_dir() else Path("tiny.yaml"), changes)
    directory = RunDirectory(run) if run.is_dir() else None
    if directory is None and (rank_info is None or rank_info.is_main):
        made = new_run(recipe, KIT, root=Path("made"))
        made.path.rename(run)
        directory = RunDirectory(run)
    result = train(recipe, KIT, directory, reporter=StopAfter(stop))
    assert result.ending == ("interrupted" if stop else "finished"), result
    os.environ.update(known)


if __name__ == "__main__":
    KIT, PORTS = Kit(), sys.argv[1:]
    go(Path("shared"), *SHARED)
    go(Path("stopped"), *SHARED, stop=11)
    go(Path("stopped"), *ALONE, stop=24)
    go(Path("stopped"), *SHARED)
    go(Path("mixed-alone"), *MIXED, *ALONE)
    go(Path("mixed-shared"), *MIXED, *SHARED)
