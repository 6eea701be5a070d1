"""What an exporter is given of a model: the model itself, texts to compare on, and what it wants to be told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from kit.contracts.exporter import Exportable, ExportSample
from kit.contracts.mask import Mask
from kit.model.facts import options_within
from kit.model.families import Model
from kit.model.side import Side
from kit.recipe.sections import ModelSection
from kit.registry import Registry
from kit.tokens import Tokens


def subject_of(
    model: Model,
    section: ModelSection,
    registry: Registry,
    samples: Sequence[ExportSample],
    symbols: dict[str, tuple[str, ...]] | None = None,
    lock: Path | None = None,
) -> Exportable:
    """A model that was assembled from a section; samples get the facts that it wants and they do not bring."""
    facts = {side: facts_wanted(model, section, registry, side) for side in ("encoder", "decoder")}
    filled = [
        ExportSample(_filled(each.source, facts["encoder"]), _filled(each.target, facts["decoder"])) for each in samples
    ]
    return Exportable(model, filled, symbols or {}, facts, section.length, lock)


def facts_wanted(model: Model, section: ModelSection, registry: Registry, side: str) -> tuple[str, ...]:
    """What the masks and the embedding of one side make use of."""
    stack, built = getattr(section, side), getattr(model, side, None)
    if stack is None or not isinstance(built, Side):
        return ()
    wanted = dict.fromkeys(built.embedding.reads)
    for options in options_within(stack):
        component = registry.of_options(type(options)).component
        if issubclass(component, Mask):
            wanted |= dict.fromkeys(component.needs)
    return tuple(wanted)


def _filled(tokens: Tokens | None, wanted: Sequence[str]) -> Tokens | None:
    """Exactly the facts that are wanted; where a text says nothing, its second half differs from its first."""
    if tokens is None:
        return None
    length = tokens.ids.shape[1]
    halves = (torch.arange(length) >= (length + 1) // 2).long().expand(tokens.ids.shape)
    return replace(tokens, facts={name: tokens.facts.get(name, halves).long() for name in wanted})
