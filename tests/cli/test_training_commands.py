"""`kit train`, `kit resume` and `kit runs`, as a person meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from session.compiled_kernels import cache_with_kernels
from typer.testing import CliRunner

from kit.cli.main import app
from kit.errors import KitError

RECIPE = """
name: small
model:
  family: encoder-decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  encoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: {use: relu, ffn_multiplier: 2}, residual: pre}
  decoder:
    depth: 1
    attention: {use: softmax, heads: 2}
    cross_attention: {use: softmax, heads: 2}
    residual: pre
    masks: [causal]
data: {use: parallel_text, train: pairs.tsv, validation: pairs.tsv, test: pairs.tsv}
tokenizer: words
training:
  steps: 4
  batch_tokens: 60
  metrics: [{use: token_error, label: digit error}]
  validate_every: 2
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "small.yaml").write_text(RECIPE)
    (tmp_path / "recipes" / "pairs.tsv").write_text("".join(f"{n} {n}\t{n}\n" for n in range(12)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache_with_kernels(tmp_path / "cache")))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def kit(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def refused(*arguments: str) -> str:
    """What a person is told."""
    error = CliRunner().invoke(app, list(arguments)).exception
    assert isinstance(error, KitError), repr(error)
    return str(error)


def test_train_says_where_first_and_ends_with_what_to_do_next():
    output = kit("train", "recipes/small.yaml", "training.seed=3")
    lines = output.splitlines()
    assert lines[0] == "runs/small/1"
    assert "step 4/4" in output and "tokens/s" in output
    assert "step 2: validation loss" in output and "digit error" in output
    assert "weights      runs/small/1/weights.safetensors" in output
    assert "kit resume small/1 training.steps=8" in lines[-1]
    assert Path("runs/small/1/reports/loss.png").stat().st_size > 1000
    assert "\x1b" not in output, "a log has no colours"


def test_resume_finds_the_data_from_anywhere(tmp_path, monkeypatch):
    kit("train", "recipes/small.yaml")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    output = kit("resume", str(tmp_path / "runs" / "small"), "training.steps=6")
    assert "step 6/6" in output and "trained 6 steps" in output


def test_resuming_a_finished_run_says_that_nothing_was_left_and_how_to_go_further():
    kit("train", "recipes/small.yaml")
    lines = kit("resume", "small").splitlines()
    assert "nothing was left to do: all 4 steps were made before" in lines
    assert "trained" not in " ".join(lines)
    assert lines[-1].split(maxsplit=2) == ["go", "on", "kit resume small/1 training.steps=8"]


def test_a_run_that_ended_early_goes_on_with_more_patience():
    early = ["training.patience=1", "training.validate_every=1", "training.steps=20", "training.schedule=constant"]
    output = kit("train", "recipes/small.yaml", *early, "training.optimizer={use: adamw, learning_rate: 1.0e-30}")
    assert "because nothing got better any more" in output
    lines = kit("resume", "small").splitlines()
    assert any(line.startswith("nothing was left to do: it ended after step ") for line in lines)
    assert lines[-1].endswith("kit resume small/1 training.patience=null")
    assert "trained 20 steps" in kit("resume", "small", "training.patience=null")


def test_runs_lists_them():
    assert "no runs in runs" in kit("runs")
    kit("train", "recipes/small.yaml", "training.steps=1")
    assert "small/1" in kit("runs") and "finished" in kit("runs")
    (found,) = json.loads(kit("runs", "--json"))
    assert (found["run"], found["state"], found["step"]) == ("small/1", "finished", 1)


def test_a_dry_run_says_what_it_would_take_and_writes_nothing():
    output = kit("train", "recipes/small.yaml", "--dry-run")
    for word in ("would train", "parameters", "objective", "sequence", "12 in", "speed", "time", "memory"):
        assert word in output
    assert not Path("runs").exists()


@pytest.mark.parametrize("how", [[], ["--dry-run"]], ids=["train", "dry-run"])
def test_a_recipe_without_a_training_section_is_told_what_to_add(how):
    recipe = Path("recipes/small.yaml")
    recipe.write_text(RECIPE.partition("training:")[0])
    assert refused("train", "recipes/small.yaml", *how) == (
        "the recipe small has no training section\n    add training: {steps: 1000, batch_tokens: 4096}"
    )
    assert not Path("runs").exists()


@pytest.mark.parametrize("wanted", ["gpu", "mps"])
def test_a_device_that_is_not_there_is_told_before_a_run_is_begun(wanted, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    told = refused("train", "recipes/small.yaml", f"training.accelerator={wanted}")
    assert told.startswith(f"training.accelerator is {wanted}, and ") and "there is cpu" in told
    assert "write training.accelerator=cpu, or auto" in told
    assert not Path("runs").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_signal_saves_and_says_how_to_go_on(number):
    command = [sys.executable, "-m", "kit", "train", "recipes/small.yaml", "training.steps=100000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    metrics = Path("runs/small/1/metrics.csv")
    deadline = time.monotonic() + 120
    while not (metrics.is_file() and len(metrics.read_text().splitlines()) > 3):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(process.pid, number)
    output, noise = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert "go on with: kit resume small/1" in output
    assert noise == ""
    saved = int(Path("runs/small/1/checkpoints/latest").read_text().split()[0].removeprefix("step-"))
    assert saved == len(metrics.read_text().splitlines()) - 1
