"""One of two processes that share each layer of a few models in turn; in between, the first trains alone.

All in the same two processes, because starting them takes longer than what they do.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from kit import Kit
from kit.runs.directory import RunDirectory
from kit.training.engine import new_run, train
from kit.training.membership import Member
from kit.training.progress import Silent

SHARED = ("training.devices=2", "training.strategy=fsdp", "training.tensor=2")
ALONE = ("training.devices=1", "training.strategy=auto", "training.tensor=1")
MIXED = (
    "model.dropout=0.1",
    "model.position=t5",
    "model.encoder.attention={use: softmax, heads: 4, groups: 2}",
    "model.encoder.feedforward={use: swiglu, factor: 3}",
    "model.decoder.cross_attention={use: talking_heads, heads: 2}",
    "model.decoder.feedforward={use: mixture, expert: {use: gelu, factor: 2}, experts: 2}",
    "training.optimizer={use: sgd, rate: 0.5}",
    "training.average={ema: 0.9}",
    "training.accumulate=2",
    "training.steps=12",
)
"""Learns a bias of every head, and has parts that stay whole, parts in parts, and dropout of what all have whole."""


class StopAfter(Silent):
    """A person who presses Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        self.last = step

    def step(self, step: int, figures: object) -> None:
        if step == self.last:
            os.kill(os.getpid(), signal.SIGINT)


def go(run: Path, *changes: str, stop: int = 0) -> None:
    """Begin a run, or go on with it, alone or together as the changes say."""
    known = dict(os.environ)
    member = Member.found()
    if ALONE[0] in changes:
        if member is not None and not member.first:
            return
        for name in member.environment() if member is not None else ():
            os.environ.pop(name, None)
    else:
        os.environ["MASTER_PORT"] = PORTS.pop()  # the last meeting's store may still be there
    recipe = KIT.recipe(run / "recipe.yaml" if run.is_dir() else Path("tiny.yaml"), changes)
    directory = RunDirectory(run) if run.is_dir() else None
    if directory is None and (member is None or member.first):
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
