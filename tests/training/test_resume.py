"""A run that was cut short goes on as if it had not been: the same losses to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.runs.directory import RunDirectory
from kit.runs.metrics import MetricsFile
from kit.training.engine import new_run, train
from kit.training.progress import Silent


class StopAfter(Silent):
    """A person who presses Ctrl-C after a step."""

    def __init__(self, step: int) -> None:
        self.last = step

    def step(self, step, figures):
        if step == self.last:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)


def columns(run: RunDirectory, *names: str) -> list[tuple[str, ...]]:
    return [tuple(row[name] for name in ("step", *names)) for row in MetricsFile(run.metrics).rows()]


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["training.average={ema: 0.9}"],
        ["training.workers=1"],
        ["training.accumulate=3"],
        ["training.optimizer={use: muon}", "training.schedule={use: warmup_cosine, warmup: 3}"],
    ],
    ids=["plain", "ema", "workers", "accumulate", "muon"],
)
def test_five_and_five_steps_are_ten(tiny, kit, tmp_path: Path, changes: list[str]):
    recipe = tiny(*changes)
    whole = train(recipe, kit, root=tmp_path / "whole")
    run = new_run(recipe, kit, root=tmp_path / "parts")
    first = train(recipe, kit, run, reporter=StopAfter(4))
    assert first.ending == "interrupted"
    assert first.step == 5  # the step after the signal notices it, at the same point on all processes
    second = train(kit.recipe(run.recipe), kit, run)
    assert second.ending == "finished" and second.step == 10
    same = ["loss", "objective", "gradient", "rate", "tokens", "validation_loss", "validation_token_error"]
    assert columns(run, *same) == columns(whole.run, *same)
    assert len(columns(run)) == 10
    assert run.weights.read_bytes() == whole.run.weights.read_bytes()
    assert second.evaluation is not None and whole.evaluation is not None
    assert second.evaluation.figures == whole.evaluation.figures


def test_steps_after_the_last_checkpoint_are_done_again_alike(tiny, kit, tmp_path: Path, monkeypatch):
    """A kill leaves rows in the metrics that no checkpoint covers."""
    recipe = tiny("training.checkpoint_every=3")
    whole = train(recipe, kit, root=tmp_path / "whole")
    run = new_run(recipe, kit, root=tmp_path / "parts")

    class Killed(BaseException):
        """What a kill looks like from inside a test."""

    class Reporter(Silent):
        def step(self, step, figures):
            if step == 8:
                raise Killed

    with pytest.raises(Killed):
        train(recipe, kit, run, reporter=Reporter())
    assert len(columns(run)) == 8
    train(recipe, kit, run)
    assert columns(run, "loss", "validation_loss") == columns(whole.run, "loss", "validation_loss")


def test_a_finished_run_is_not_trained_again(tiny, kit):
    first = train(tiny("training.steps=3"), kit)
    before = first.run.weights.read_bytes()
    second = train(kit.recipe(first.run.recipe), kit, first.run)
    assert second.step == 3 and second.ending == "finished"
    assert first.run.weights.read_bytes() == before


def test_a_run_can_be_prolonged(tiny, kit):
    first = train(tiny("training.steps=3"), kit)
    second = train(kit.recipe(first.run.recipe, ["training.steps=5"]), kit, first.run)
    assert second.step == 5
    assert [row[0] for row in columns(first.run)] == ["1", "2", "3", "4", "5"]


def test_seeds_differ_and_repeat(tiny, kit):
    losses = [columns(train(tiny("training.steps=3", f"training.seed={seed}"), kit).run, "loss") for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
