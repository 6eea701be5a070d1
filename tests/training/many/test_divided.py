"""Processes that share each layer: the loss curve of one process, checkpoints that any number can load."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from many_processes import Place, farthest, losses

from kit.runs.tensors import read_tensors

pytestmark = pytest.mark.xdist_group("many")
CLOSE = 1e-4
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


def columns(run: Path, name: str) -> list[str]:
    return [row.split()[1] for row in losses(run, name)]


def stop(place: Place, step: int, *arguments: str) -> None:
    command = place.start(*arguments)
    place.wait_for_step(step, command)
    os.kill(command.process.pid, signal.SIGTERM)
    code, text = command.end(within=60)
    assert code == 128 + signal.SIGTERM, text


def test_two_processes_that_share_each_layer(place: Place, alone: Path):
    run = place.run("train", "tiny.yaml", *SHARED)
    assert farthest(losses(run), losses(alone)) < CLOSE
    assert farthest(columns(run, "gradient"), columns(alone, "gradient")) < CLOSE
    assert columns(run, "tokens") == columns(alone, "tokens")
    whole, together = read_tensors(alone / "weights.safetensors"), read_tensors(run / "weights.safetensors")
    assert {name: value.shape for name, value in whole.items()} == {name: it.shape for name, it in together.items()}


def test_one_process_goes_on_and_two_after_it(place: Place, alone: Path):
    """Two that share each layer are stopped, then one that went on is stopped, and two that share go on to the end."""
    stop(place, 12, "train", "tiny.yaml", *SHARED)
    stop(place, 25, "resume", "tiny", *ALONE)
    run = place.run("resume", "tiny", *SHARED)
    assert len(losses(run)) == 50
    assert farthest(losses(run), losses(alone)) < CLOSE
    assert columns(run, "tokens") == columns(alone, "tokens")


def test_parts_that_stay_whole_learn_the_same_beside_others(place: Place):
    alone, shared = (place.run("train", "tiny.yaml", *MIXED, *how) for how in (ALONE, SHARED))
    assert farthest(losses(shared), losses(alone)) < CLOSE
    one, two = read_tensors(alone / "weights.safetensors"), read_tensors(shared / "weights.safetensors")
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < CLOSE


def test_not_finite_in_one_share_stops_all(place: Place):
    code, text = place.start("train", "tiny.yaml", *SHARED, TROUBLE="nan:1:4").end()
    assert code == 5, text
    assert text.count("step 4 is not finite") == 1
    assert len(losses(place.newest())) == 3
