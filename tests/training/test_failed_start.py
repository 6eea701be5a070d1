"""A training that cannot start leaves no run behind; one that was begun stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit import KitError
from kit.distributed.rank_info import ProcessMissing
from kit.runs.metrics_file import list_runs
from kit.runs.run_directory import RunDirectory
from kit.training.progress import SilentReporter
from kit.training.train import new_run, train


class Listener(SilentReporter):
    """Writes down what is said; fails after a step, if asked to."""

    def __init__(self, fails_after: int = 0, error: type[Exception] = KitError) -> None:
        self.said: list[str] = []
        self.fails_after = fails_after
        self.error = error

    def say(self, text):
        self.said.append(text)

    def start(self, done, steps):
        if self.fails_after < 0:
            raise self.error("before the first step")

    def step(self, step, figures):
        if step == self.fails_after:
            raise self.error("after a step")


@pytest.mark.parametrize(
    "change",
    [
        "data={use: parallel_text, train: nowhere.tsv}",
        "model.vocabulary=7",
        "training.batch_tokens=1",
    ],
    ids=["data", "vocabulary", "batch"],
)
def test_what_cannot_start_leaves_no_run_and_the_name_means_the_one_before(tiny, kit, change: str):
    before = train(tiny("training.steps=2"), kit).run
    listener = Listener()
    with pytest.raises(KitError):
        train(tiny(change), kit, folder=Path(), reporter=listener)
    assert [path.name for path in before.path.parent.iterdir()] == ["1"]
    assert RunDirectory.open("tiny").path == before.path and [run.label for run in list_runs()] == ["tiny/1"]
    assert listener.said == ["runs/tiny/2", "runs/tiny/2 is removed again: nothing was trained"]


def test_any_error_before_the_first_step_counts(tiny, kit):
    with pytest.raises(ZeroDivisionError):
        train(tiny(), kit, reporter=Listener(-1, ZeroDivisionError))
    assert list_runs() == []


def test_steps_that_were_made_stay(tiny, kit):
    listener = Listener(2)
    with pytest.raises(KitError, match="after a step"):
        train(tiny(), kit, reporter=listener)
    assert [run.label for run in list_runs()] == ["tiny/1"] and len(listener.said) == 1


def test_a_run_that_was_there_already_stays(tiny, kit):
    run = new_run(tiny(), kit)
    with pytest.raises(KitError):
        train(tiny("training.batch_tokens=1"), kit, run)
    assert run.recipe.is_file()


def test_a_process_that_is_gone_says_nothing_against_the_run(tiny, kit):
    with pytest.raises(ProcessMissing):
        train(tiny(), kit, reporter=Listener(-1, ProcessMissing))
    assert [run.label for run in list_runs()] == ["tiny/1"]
