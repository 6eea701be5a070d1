"""A scheduler that wants its machine back: a checkpoint, all gone in time, and on from there with any number."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest
from processes.training_processes import Place, farthest, losses

pytestmark = pytest.mark.xdist_group("many")
TERMINATED = 128 + signal.SIGTERM


def stop(place: Place, rank: int | None, *arguments: str) -> tuple[int, str, float]:
    """Ask one of the processes to end, or the one that started them; what came of it, and after how long."""
    command = place.start(*arguments)
    place.wait_for_step(12, command)
    asked = command.process.pid if rank is None else command.ranks()[rank].pid
    began = time.monotonic()
    os.kill(asked, signal.SIGTERM)
    code, text = command.end(within=60)
    return code, text, time.monotonic() - began


def test_any_number_of_processes_goes_on(place: Place, alone: Path, fsdp: Path):
    """Two that hold half of the model each are stopped; two go on to the last bit, and one nearly so."""
    code, text, seconds = stop(place, 1, "train", "tiny.yaml", "training.devices=2", "training.strategy=fsdp")
    assert code == TERMINATED, text
    assert seconds < 30
    assert "everything is saved" in text and "kit resume tiny/1" in text
    done = len(losses(place.newest()))
    assert (place.newest() / "checkpoints" / f"step-{done:08d}").is_dir()
    shutil.copytree(place.newest(), place.newest().with_name("2"))
    assert losses(place.run("resume", "tiny/1")) and losses(place.folder / "runs/tiny/1") == losses(fsdp)
    place.run("resume", "tiny/2", "training.devices=1")
    went_on = losses(place.folder / "runs/tiny/2", "tokens")
    assert [row.split()[1] for row in went_on] == [row.split()[1] for row in losses(alone, "tokens")]
    assert farthest(losses(place.folder / "runs/tiny/2"), losses(fsdp)) < 1e-5


def test_the_first_process_is_asked_and_more_go_on(place: Place, alone: Path, ddp: Path):
    """One process is stopped and two go on, which hold the whole model each, or half of it."""
    command = place.start("train", "tiny.yaml")
    place.wait_for_step(12, command)
    os.kill(command.process.pid, signal.SIGTERM)
    assert command.end(within=60)[0] == TERMINATED
    shutil.copytree(place.newest(), place.newest().with_name("2"))
    for number, strategy in ((1, "ddp"), (2, "fsdp")):
        place.run("resume", f"tiny/{number}", "training.devices=2", f"training.strategy={strategy}")
        assert farthest(losses(place.folder / f"runs/tiny/{number}"), losses(alone)) < 1e-5


@pytest.mark.parametrize("rank", [0, None], ids=["process 0", "the one that started them"])
def test_whoever_is_asked(place: Place, ddp: Path, rank: int | None):
    code, text, seconds = stop(place, rank, "train", "tiny.yaml", "training.devices=2")
    assert code == TERMINATED, text
    assert seconds < 30
    assert "everything is saved" in text
    done = len(losses(place.newest()))
    assert losses(place.newest()) == losses(ddp)[:done]
    assert (place.newest() / "checkpoints" / f"step-{done:08d}").is_dir()


@pytest.mark.parametrize(
    ("strategy", "trouble", "rank"),
    [("ddp", "metric", 1), ("fsdp", "layers", 0)],
    ids=["a slow metric", "slow layers that are spread"],
)
def test_asked_while_held_out_examples_are_measured(
    place: Place, request: pytest.FixtureRequest, strategy: str, trouble: str, rank: int
):
    """The measurement is given up by all, and made when the run goes on."""
    many = ["training.devices=2", f"training.strategy={strategy}"]
    command = place.start("train", "tiny.yaml", *many, TROUBLE=f"{trouble}:0:0")
    place.wait_for((place.folder / "measuring").exists, command)
    began = time.monotonic()
    os.kill(command.ranks()[rank].pid, signal.SIGTERM)
    code, text = command.end(within=60)
    assert code == TERMINATED, text
    assert time.monotonic() - began < 30
    assert "everything is saved" in text
    assert (place.newest() / "checkpoints" / "step-00000025").is_dir()
    assert len(losses(place.newest())) == 25
    figures = ("validation_loss", "validation_token_error")
    whole: Path = request.getfixturevalue(strategy)
    assert losses(place.run("resume", "tiny"), *figures) == losses(whole, *figures)


def test_nobody_stays_when_the_one_that_started_them_is_killed(place: Place):
    command = place.start("train", "tiny.yaml", "training.devices=2", "training.steps=100000")
    place.wait_for_step(12, command)
    os.kill(command.process.pid, signal.SIGKILL)
    began = time.monotonic()
    while command.session and time.monotonic() - began < 60:
        time.sleep(0.1)
    assert not command.session
    done = len(losses(place.newest()))
    assert (place.newest() / "checkpoints" / f"step-{done:08d}").is_dir()  # they were not killed, and saved
