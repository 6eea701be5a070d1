"""A study that runs in a blink, in a folder of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from runs import tiny_runs

from kit import Kit
from kit_study.planning import Plan
from kit_study.study_file import read_study

KIT = Kit()

RECIPE = """
name: tiny
model:
  family: decoder
  width: 16
  length: 32
  position: sinusoidal
  norm: layer
  decoder:
    depth: 1
    attention: {use: softmax, heads: 2}
    feedforward: {use: relu, ffn_multiplier: 2}
    residual: pre
    masks: [causal]
data: {use: copy, symbols: 4, max_length: 6, train: 60, validation: 10, test: 10}
tokenizer: words
training:
  steps: 6
  batch_tokens: 120
  optimizer: {use: adamw, learning_rate: 0.01}
  metrics: [accuracy]
  metric: accuracy
  validate_every: 3
  checkpoint_every: 2
"""
STUDY: dict[str, Any] = {
    "name": "small",
    "claim": "Nothing in particular.",
    "recipe": "tiny.yaml",
    "axes": {"norm": {"path": "model.norm", "values": ["layer", "rms"]}},
    "seeds": 2,
    "metric": "loss",
}


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path) -> Iterator[None]:
    """No test sees another's cache or studies, and all compute alike."""
    torch.set_num_threads(1)
    with tiny_runs.alone(tmp_path):
        yield


@pytest.fixture
def kit() -> Kit:
    return KIT


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """The study with other keys, as a file beside its recipe: `write(seeds=3)`."""

    def make(**changes: Any) -> Path:
        (tmp_path / "tiny.yaml").write_text(RECIPE)
        path = tmp_path / "study.yaml"
        data = {key: value for key, value in {**STUDY, **changes}.items() if value is not None}
        path.write_text(yaml.safe_dump(data, sort_keys=False))
        return path

    return make


@pytest.fixture
def plan(write: Callable[..., Path], tmp_path: Path) -> Callable[..., Plan]:
    """A plan of that study: `plan(seeds=3)`."""

    def make(kit: Kit = KIT, quick: bool = False, **changes: Any) -> Plan:
        return Plan(read_study(write(**changes), kit.registry, quick=quick), kit, tmp_path / "studies")

    return make
