"""Models that are ready to be exported, without a run around them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml

from kit import Exportable, ExportCheck, Exporter, ModelSection
from kit.exporting.export import exportable
from kit.exporting.sampling import batches, random_pairs
from kit.model.builder import ModelBuilder
from kit.recipe.slot_schema import bind
from models.tiny_models import KIT

TRANSLATOR = """
family: encoder-decoder
norm: layer
position: sinusoidal
embedding: {use: token, scale: true}
encoder: {depth: 1, attention: {use: softmax, heads: 4}, feedforward: {use: relu, ffn_multiplier: 2}, residual: pre}
decoder: {
  depth: 1, attention: {use: softmax, heads: 4}, cross_attention: {use: softmax, heads: 4},
  feedforward: {use: relu, ffn_multiplier: 2}, residual: pre, masks: [causal]
}
"""
WRITER = """
family: decoder
norm: layer
position: learned
decoder:
  depth: 1
  attention: {use: softmax, heads: 4}
  feedforward: {use: gelu, approximate: tanh}
  residual: pre
  masks: [causal]
"""
READER = """
family: encoder
norm: layer
position: learned
encoder: {depth: 1, attention: {use: softmax, heads: 4}, feedforward: relu, residual: post}
"""
SIZES = {"width": 32, "vocabulary": 40, "length": 64}


def section(text: str, *changes: tuple[str, str], **more: Any) -> ModelSection:
    """The model section of one of the texts above, with words of it exchanged."""
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return bind(ModelSection, KIT.registry).model_validate({**SIZES, **yaml.safe_load(text), **more})


def subject(chosen: ModelSection, spread: float = 0.2) -> Exportable:
    """A model with random weights, further apart than those that training begins from."""
    torch.manual_seed(0)
    model = ModelBuilder(KIT.registry).model(chosen).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.add_(spread * torch.randn_like(parameter))
    size = SIZES["vocabulary"] if chosen.vocabulary is None else chosen.vocabulary
    assert isinstance(size, int)
    return exportable(model, chosen, KIT.registry, batches(model, random_pairs(size, size), chosen.length))


def exported(exporter: Exporter, given: Exportable, folder: Path | None = None) -> list[ExportCheck]:
    """What the exporter finds when it compares what it wrote."""
    if folder is not None:
        exporter.write(given, folder)
        return list(exporter.verify(given, folder))
    with tempfile.TemporaryDirectory() as name:
        return exported(exporter, given, Path(name))
