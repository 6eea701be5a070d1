"""A run is all that is needed to use its model."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from runs import tiny_runs

from kit import DifferentRunWarning, Kit, TokenBatch, load_run
from kit.errors import KitError
from kit.files.tensors import read_tensors
from kit.runs.lock import Lock
from kit.training.train import train

KIT = Kit()
PAIRS = """
name: tiny
model:
  family: encoder-decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  encoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre}
  decoder: {depth: 1, attention: softmax, cross_attention: softmax, feedforward: relu, residual: pre, masks: [causal]}
data: {use: reverse, max_length: 8, train: 60, validation: 10, test: 10}
tokenizer: words
training: {steps: 6, batch_tokens: 120, validate_every: 3, checkpoint_every: 3}
"""
CLASSES = """
name: classes
model:
  family: encoder
  width: 16
  length: 210
  position: sinusoidal
  norm: layer
  encoder: {depth: 1, attention: softmax, feedforward: relu, residual: pre}
  head: {use: classes, classes: 10}
data: {use: listops, train: 200, validation: 10, test: 10}
tokenizer: words
training: {steps: 2, batch_tokens: 2000, validate_every: 2}
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path) -> Iterator[None]:
    with tiny_runs.alone(tmp_path):
        yield


def test_a_run_that_was_moved_gives_the_weights_it_kept(tmp_path: Path) -> None:
    run = train(KIT.recipe(PAIRS), KIT).run
    moved = tmp_path / "elsewhere"
    shutil.move(run.path, moved)
    opened = load_run(moved, KIT)
    kept = read_tensors(moved / "weights.safetensors")
    assert all(torch.equal(value, kept[name]) for name, value in opened.model.state_dict().items())
    assert not opened.model.training and opened.differences == []
    ids = torch.tensor([opened.tokenizers.source.encode("1 2 3")])
    assert opened.model(TokenBatch.of(ids), TokenBatch.of(torch.tensor([[1, 7]]))).shape[:2] == (1, 2)


def test_a_run_that_has_not_ended_gives_its_best_checkpoint() -> None:
    run = train(KIT.recipe(PAIRS, ["training.average={ema: 0.5}"]), KIT).run
    finished = read_tensors(run.weights)
    run.weights.unlink()
    opened = load_run("tiny", KIT)
    assert all(torch.equal(value, finished[name]) for name, value in opened.model.state_dict().items())


def test_classes_keep_their_names() -> None:
    run = train(KIT.recipe(CLASSES), KIT).run
    assert load_run(run, KIT).labels == tuple("0123456789")
    run.labels.write_text('{"0": 1}')
    with pytest.raises(KitError, match="not a list of names"):
        load_run(run, KIT)


def test_what_differs_is_said_and_what_is_missing_is_named() -> None:
    run = train(KIT.recipe(PAIRS), KIT).run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_run(run, KIT)
    lock = Lock.read(run.lock)
    lock.model_copy(update={"torch": "1.0"}).write(run.lock)
    with pytest.warns(DifferentRunWarning, match=r"torch was 1\.0"):
        load_run(run, KIT)
    lock.write(run.lock)
    bare = Kit(disable=["attention"])
    with pytest.raises(KitError, match=r"attention is not here.*pip install"):
        load_run(run, bare)
