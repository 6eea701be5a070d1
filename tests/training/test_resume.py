"""A run that was cut short goes on as if it had not been: the same losses to the last bit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

from kit.checkpoints.store import CheckpointStore
from kit.runs.lock import Lock
from kit.runs.metrics_file import MetricsFile, summarize
from kit.runs.run_directory import RunDirectory, RunError
from kit.training.progress import SilentReporter
from kit.training.train import new_run, train


class StopAfter(SilentReporter):
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
        ["training.average={last: 4}", "training.checkpoint_every=2"],
        ["training.workers=1"],
        ["training.accumulate_steps=3"],
        ["training.optimizer={use: muon}", "training.schedule={use: warmup_cosine, warmup: 3}"],
    ],
    ids=["plain", "ema", "last", "workers", "accumulate", "muon"],
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
    same = [
        "loss",
        "objective",
        "gradient_norm",
        "learning_rate",
        "tokens",
        "validation_loss",
        "validation_token_error",
    ]
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

    class Reporter(SilentReporter):
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


def test_a_run_that_was_prolonged_and_interrupted_knows_how_far_it_is_to_go(tiny, kit):
    run = train(tiny("training.steps=3"), kit).run
    began = summarize(run).started
    longer = kit.recipe(run.recipe, ["training.steps=8"])
    assert train(longer, kit, run, reporter=StopAfter(4)).ending == "interrupted"
    assert (summarize(run).step, summarize(run).state, summarize(run).started) == (5, "stopped", began)
    last = train(kit.recipe(run.recipe), kit, run)
    assert (last.ending, last.step, last.steps) == ("finished", 8, 8)
    assert summarize(run).state == "finished"


@pytest.mark.parametrize(
    ("changes", "named", "made"),
    [
        (["model.width=32", "model.dropout=0.2"], "model.width=32", "model.width=16"),
        (["model.encoder.depth=2"], "model.encoder.depth=2", "model.encoder.depth=1"),
        (
            ["model.encoder.feedforward.ffn_multiplier=3", "model.width=8"],
            "model.width=8 and model.encoder.feedforward.ffn_multiplier=3.0",
            "model.width=16 and model.encoder.feedforward.ffn_multiplier=2.0",
        ),
    ],
    ids=["width", "depth", "two"],
)
def test_a_change_of_sizes_is_refused_and_not_kept(tiny, kit, changes: list[str], named: str, made: str):
    run = train(tiny("training.steps=3"), kit).run
    before = run.recipe.read_text()
    wanted = rf"tiny/1 cannot go on with {named}: its weights were made with {made}\n.*leave that out, or begin"
    with pytest.raises(RunError, match=wanted):
        train(kit.recipe(run.recipe, [*changes, "training.steps=5"]), kit, run)
    assert run.recipe.read_text() == before
    assert train(kit.recipe(run.recipe, ["training.steps=4"]), kit, run).step == 4


def test_another_part_is_refused_by_name(tiny, kit):
    run = train(tiny("training.steps=2"), kit).run
    with pytest.raises(RunError, match=r"cannot go on with model\.norm\.use=rms"):
        train(kit.recipe(run.recipe, ["model.norm=rms"]), kit, run)


def test_weights_of_a_run_that_was_made_of_another_are_refused_alike(tiny, kit):
    run = train(tiny("training.steps=2"), kit).run
    shutil.rmtree(run.checkpoints)
    with pytest.raises(RunError, match=r"cannot go on with model\.width=32"):
        train(kit.recipe(run.recipe, ["model.width=32"]), kit, run)


def test_an_average_that_is_new_to_a_run_begins_with_its_weights_of_then(tiny, kit):
    run = train(tiny("training.steps=3"), kit).run
    store = CheckpointStore(run.checkpoints, Lock.read(run.lock).run)
    before = store.load(3).weights
    train(kit.recipe(run.recipe, ["training.steps=4", "training.average={ema: 0.999}"]), kit, run)
    after = store.load(4)
    kept = 5 / 14  # what stays of a young average after the fourth update
    for name, value in after.training["average"].items():
        torch.testing.assert_close(value, kept * before[name] + (1 - kept) * after.weights[name])


def test_seeds_differ_and_repeat(tiny, kit):
    losses = [columns(train(tiny("training.steps=3", f"training.seed={seed}"), kit).run, "loss") for seed in (0, 0, 1)]
    assert losses[0] == losses[1] != losses[2]
