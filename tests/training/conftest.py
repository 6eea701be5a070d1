"""A recipe that trains in a blink, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from runs import tiny_runs

from kit import Kit, Recipe

KIT = Kit()

RECIPE = """
name: tiny
model:
  family: encoder-decoder
  width: 16
  length: 24
  dropout: 0.1
  position: sinusoidal
  norm: layer
  encoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: {use: relu, ffn_multiplier: 2}, residual: pre}
  decoder:
    depth: 1
    attention: {use: softmax, heads: 2}
    cross_attention: {use: softmax, heads: 2}
    feedforward: {use: relu, ffn_multiplier: 2}
    residual: pre
    masks: [causal]
data: {use: reverse, max_length: 8, train: 60, validation: 10, test: 10}
tokenizer: words
training:
  steps: 10
  batch_tokens: 120
  optimizer: {use: adamw, learning_rate: 0.01}
  metrics: [token_error]
  validate_every: 4
  checkpoint_every: 5
"""


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path) -> Iterator[None]:
    """No test sees another's cache or runs, and all compute alike."""
    torch.set_num_threads(1)
    with tiny_runs.alone(tmp_path):
        yield


@pytest.fixture
def kit() -> Kit:
    return KIT


@pytest.fixture
def tiny() -> Callable[..., Recipe]:
    """The recipe with changes: `tiny("training.steps=5")`."""

    def make(*overrides: str) -> Recipe:
        return KIT.recipe(RECIPE, overrides)

    return make
