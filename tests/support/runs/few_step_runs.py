"""Runs of every family that are trained in a blink, for tests that look into them."""

from __future__ import annotations

from pathlib import Path

from kit import Kit
from kit.runs.run_directory import RunDirectory
from kit.training.train import train

KIT = Kit()
PAIRS = """
name: pairs
model:
  family: encoder-decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  encoder: {depth: 2, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre}
  decoder:
    {depth: 2, attention: {use: softmax, heads: 4, kv_heads: 2}, cross_attention: {use: softmax, heads: 2},
     feedforward: relu, residual: pre, masks: [causal]}
data: {use: reverse, max_length: 8, train: 60, validation: 10, test: 10}
tokenizer: words
training: {steps: 3, batch_tokens: 120, validate_every: 3, checkpoint_every: 3}
"""
CLASSES = """
name: classes
model:
  family: encoder
  width: 16
  length: 210
  position: sinusoidal
  norm: layer
  encoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre}
  head: {use: classes, classes: 10}
data: {use: listops, train: 50, validation: 10, test: 10}
tokenizer: words
training: {steps: 2, batch_tokens: 2000, validate_every: 2}
"""
TEXT = """
name: text
model:
  family: decoder
  width: 16
  length: 32
  position: rotary
  norm: layer
  decoder: {depth: 2, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [causal]}
data: {use: plain_text, train: text.txt, documents: line}
tokenizer: characters
training: {steps: 2, batch_tokens: 256, validate_every: 2}
"""
PREFIXED = """
name: prefixed
model:
  family: decoder
  width: 16
  length: 24
  position: sinusoidal
  norm: layer
  decoder: {depth: 1, attention: {use: softmax, heads: 2}, feedforward: relu, residual: pre, masks: [prefix]}
data: {use: reverse, max_length: 8, train: 60, validation: 10, test: 10}
tokenizer: words
training: {steps: 2, batch_tokens: 120, validate_every: 2}
"""


def trained(recipe: str, *overrides: str) -> RunDirectory:
    """A run in the current folder."""
    if "text.txt" in recipe:
        Path("text.txt").write_text("the cat sat on the mat.\nthe dog sat on the log.\n" * 20)
    return train(KIT.recipe(recipe, overrides), KIT).run
