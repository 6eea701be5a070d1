"""Runs that train in a blink, of every kind of model that can be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from models.tiny_models import KIT
from session.compiled_kernels import cache_with_kernels

from kit.runs.run_directory import RunDirectory
from kit.training.train import train

STACK = "depth: 1, attention: {use: softmax, heads: 2}, feedforward: {use: relu, ffn_multiplier: 2}, residual: pre"
TEXT = "the cat sat on the mat. the dog sat on the log. a cat and a dog sat.\n" * 12

PAIRS = f"""
name: pairs
model:
  family: encoder-decoder
  width: 32
  length: 16
  position: sinusoidal
  norm: layer
  encoder: {{{STACK}}}
  decoder: {{{STACK}, cross_attention: {{use: softmax, heads: 2}}, masks: [causal]}}
data: {{use: copy, symbols: 6, max_length: 3, train: 400, validation: 20, test: 40}}
tokenizer: words
training:
  {{steps: 120, batch_tokens: 400, optimizer: {{use: adamw, learning_rate: 0.01}}, metrics: [exact, token_error]}}
"""
PREFIXED = f"""
name: prefixed
model:
  family: decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  decoder: {{{STACK}, masks: [prefix]}}
data: {{use: copy, symbols: 6, max_length: 4, train: 200, validation: 10, test: 10}}
tokenizer: words
training: {{steps: 20, batch_tokens: 200, metrics: [exact]}}
"""
TEXTS = f"""
name: texts
model:
  family: decoder
  width: 32
  length: 16
  position: learned
  norm: layer
  decoder: {{{STACK}, masks: [causal]}}
data: {{use: plain_text, train: text.txt}}
tokenizer: characters
training: {{steps: 60, batch_tokens: 256, optimizer: {{use: adamw, learning_rate: 0.01}}, metrics: [perplexity]}}
"""
MASKED = f"""
name: masked
model:
  family: encoder
  width: 32
  length: 16
  position: learned
  norm: layer
  encoder: {{{STACK}}}
data: {{use: plain_text, train: text.txt}}
tokenizer: {{use: bpe, vocab_size: 300}}
training: {{steps: 60, batch_tokens: 256, optimizer: {{use: adamw, learning_rate: 0.01}}, metrics: [accuracy]}}
"""
CLASSES = f"""
name: classes
model:
  family: encoder
  width: 16
  length: 12
  position: sinusoidal
  norm: layer
  encoder: {{{STACK}}}
  head: {{use: classes, classes: 3}}
data: {{use: labelled_text, train: labels.tsv, validation: labels.tsv, test: labels.tsv}}
tokenizer: words
training: {{steps: 30, batch_tokens: 128, optimizer: {{use: adamw, learning_rate: 0.01}}, metrics: [accuracy, f1]}}
"""


def write_files(folder: Path) -> None:
    """What the recipes read."""
    (folder / "text.txt").write_text(TEXT)
    rows = [("red", "blood rose"), ("green", "grass leaf"), ("blue", "sky sea")] * 8
    lines = [f"{label}\t{text} {text.split()[number % 2]}\n" for number, (label, text) in enumerate(rows)]
    (folder / "labels.tsv").write_text("".join(lines))


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """In a folder of its own, with a cache of its own, and without the plot of the loss, which takes half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_with_kernels(folder / "cache")))
        patch.chdir(folder)
        patch.setattr("kit_loss_plot.callback.plot_losses", lambda run: run)
        yield


def trained(recipe: str, folder: Path, *overrides: str) -> RunDirectory:
    """A run of a recipe, in a folder."""
    with alone(folder):
        write_files(folder)
        run = train(KIT.recipe(recipe, ["training.validate_every=1000", *overrides]), KIT, folder=folder).run
        return RunDirectory(run.path.resolve())
