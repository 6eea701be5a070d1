"""Objectives that break one law each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch

from kit import Batch, Loss, Objective, Options, Supports


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenObjective(Objective):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()
    supports = (Supports("decoder", "text", "lm_window"),)

    def loss(self, model: Any, batch: Batch) -> Loss:
        assert batch.source is not None
        scores = model(batch.source, packed=True).flatten(0, 1)
        gold = batch.source.ids.flatten()
        total = torch.nn.functional.cross_entropy(scores, gold, reduction="sum")
        return Loss(total, gold.numel(), total.detach())


class TrainsNothing(BrokenObjective):
    breaks = ("objective.gradients",)

    def loss(self, model: Any, batch: Batch) -> Loss:
        found = super().loss(model, batch)
        return replace(found, total=found.total.detach() + 0 * next(model.parameters()).sum())


class Averages(BrokenObjective):
    """A mean over this share of the batch: other processes then count differently."""

    breaks = ("objective.additivity",)

    def loss(self, model: Any, batch: Batch) -> Loss:
        found = super().loss(model, batch)
        return replace(found, total=found.total / found.num_predictions)
