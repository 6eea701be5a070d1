"""The weights of a run are what was written, or it is said that they are not."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
import torch
from models.tiny_models import KIT
from runs import tiny_runs

from kit import load_run
from kit.runs import weights as module
from kit.runs.run_directory import RunDirectory, RunError
from kit.runs.weights import read_weights, save_weights
from kit.training.train import train

VALUES = {"a": torch.arange(6.0)}


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    made = RunDirectory.create("kept", tmp_path)
    save_weights(made, VALUES)
    return made


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_the_digest_is_what_sha256sum_writes(run: RunDirectory) -> None:
    digest = hashlib.sha256(run.weights.read_bytes()).hexdigest()
    assert run.weights_digest.read_text() == f"{digest}  weights.safetensors\n"
    assert torch.equal(read_weights(run)["a"], VALUES["a"])


def test_a_flipped_bit_is_noticed_and_what_to_do_is_said(run: RunDirectory) -> None:
    flip(run.weights)
    with pytest.raises(RunError, match=r"(?s)does not hold what was written.*take another copy of the run"):
        read_weights(run)
    (run.checkpoints / "step-00000001").mkdir()
    with pytest.raises(RunError, match="kit resume kept/1"):
        read_weights(run)


@pytest.mark.parametrize("text", [b"", b"no digest", b"\xff\xfe", b"0" * 64 + b"  other.safetensors\n"])
def test_a_digest_that_is_none_is_named(run: RunDirectory, text: bytes) -> None:
    run.weights_digest.write_bytes(text)
    with pytest.raises(RunError, match=r"weights\.safetensors\.sha256"):
        read_weights(run)


def test_killed_between_the_two_the_new_weights_are_good(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*given: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_text", killed)
    with pytest.raises(KeyboardInterrupt):
        save_weights(run, {"a": torch.ones(6)})
    assert torch.equal(read_weights(run)["a"], torch.ones(6))


def test_a_run_is_opened_only_with_the_weights_it_kept(tmp_path: Path) -> None:
    small = ["training.steps=2", "data.train=40"]
    made = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *small)
    load_run(made, KIT)
    flip(made.weights)
    with pytest.raises(RunError, match="does not hold what was written"):
        load_run(made, KIT)
    made.weights_digest.unlink()
    load_run(made, KIT)  # as a run from before digests were kept


def test_a_run_begins_only_with_the_weights_it_was_made_with(tmp_path: Path) -> None:
    small = ["training.steps=2", "data.train=40"]
    made = tiny_runs.trained(tiny_runs.PAIRS, tmp_path, *small)
    shutil.rmtree(made.checkpoints)  # as a run that was made of another one's weights
    flip(made.weights)
    with tiny_runs.alone(tmp_path), pytest.raises(RunError, match=r"(?s)does not hold what was written.*another copy"):
        train(KIT.recipe(made.recipe), KIT, made)
