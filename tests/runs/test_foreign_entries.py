"""Links that lead out of a run are not followed, and pipes and devices in it are not waited for."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch
from runs.forged_runs import within

from kit import KitError, RunDirectory
from kit.files.atomic import DamagedCheckpoint, sha256_of
from kit.files.tensors import read_tensors
from kit.runs.lock import Lock
from kit.runs.metrics_file import MetricsFile, list_runs
from kit.runs.run_directory import RunError, claim_run, is_run_claimed, read_origin
from kit.runs.weights import read_weights, save_weights


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create("tiny", tmp_path / "runs")
    run.write(run.recipe, "name: tiny\n")
    return run


ENTRIES = ["reports", "tensorboard", "checkpoints/latest", "origin.json", ".claim", "metrics.csv", "tokenizer/a/b"]


@pytest.mark.parametrize("name", ENTRIES)
def test_a_link_out_of_a_run_is_refused_and_nothing_is_written_there(
    run: RunDirectory, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    place = run.path / name
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        place.rmdir()
    place.symlink_to(outside)
    for act in (lambda: RunDirectory.open(run.path), lambda: claim_run(run).__enter__()):
        with pytest.raises(RunError, match=rf"{name} is a link to .*outside.*put a copy"):
            act()
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", ENTRIES)
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_a_pipe_in_a_run_is_refused_and_not_waited_for(run: RunDirectory, name: str, kind: str, monkeypatch) -> None:
    place = run.path / name
    place.parent.mkdir(exist_ok=True)
    if place.is_dir():
        place.rmdir()
    if kind == "pipe":
        os.mkfifo(place)
    else:
        monkeypatch.chdir(place.parent)  # the path of a socket must be short
        socket.socket(socket.AF_UNIX).bind(place.name)
    with within(10):
        for act in (lambda: RunDirectory.open(run.path.resolve()), lambda: claim_run(run).__enter__()):
            with pytest.raises(RunError, match=rf"{name} is a pipe, a socket or a device"):
                act()
        assert [it.state for it in list_runs(run.path.parents[1])] == ["stopped"]


def test_links_that_stay_in_a_run_and_a_run_that_is_a_link_are_fine(run: RunDirectory, tmp_path: Path) -> None:
    (run.path / "notes").symlink_to("recipe.yaml")
    (run.path / "nowhere").symlink_to("reports/later.json")
    (tmp_path / "link").symlink_to(run.path)
    assert RunDirectory.open(tmp_path / "link").recipe.is_file()
    with claim_run(RunDirectory(tmp_path / "link")):
        assert is_run_claimed(run.path)


def test_no_reader_waits_for_a_pipe(run: RunDirectory) -> None:
    for name in ("lock.json", "weights.safetensors", "metrics.csv", ".claim", "origin.json"):
        os.mkfifo(run.path / name)
    with within(10):
        for act in (lambda: Lock.read(run.lock), lambda: read_weights(run)):
            with pytest.raises(KitError, match="wanted a regular file"):
                act()
        with pytest.raises(OSError, match="wanted a regular file"):
            sha256_of(run.weights)
        with pytest.raises(DamagedCheckpoint, match="wanted a regular file"):
            read_tensors(run.weights)
        assert MetricsFile(run.metrics).rows() == []
        assert not is_run_claimed(run.path) and read_origin(run) is None


def test_weights_that_are_a_device_are_not_read(run: RunDirectory) -> None:
    save_weights(run, {"a": torch.ones(1)})
    run.weights.unlink()
    run.weights.symlink_to("/dev/zero")
    with within(10), pytest.raises(RunError, match="is a link to '/dev/zero'"):
        RunDirectory.open(run.path)
