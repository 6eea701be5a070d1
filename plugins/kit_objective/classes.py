"""Sequence classification."""

from __future__ import annotations

from typing import Literal

import torch

from kit import Batch, Loss, Model, Objective, Supports
from kit_objective.cross_entropy import SmoothedOptions, Spread, smoothed_loss


class ClassesOptions(SmoothedOptions):
    """Options of `classes`; there is no padding among classes, so that `others_but_padding` means `others`."""

    use: Literal["classes"] = "classes"


class ClassesObjective(Objective):
    """Cross entropy over the classes of a sequence."""

    options_type = ClassesOptions
    options: ClassesOptions
    supports = (
        Supports("encoder", "labelled", "classification", default=True),
        Supports("decoder", "labelled", "classification", default=True),
    )
    per_token = False

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The loss over the sequences."""
        assert batch.source is not None and batch.labels is not None
        logits_NV = model(batch.source, packed=True)
        spread: Spread = "all" if self.options.spread == "all" else "others"
        options = self.options.model_copy(update={"spread": spread})
        row_N = torch.arange(len(batch.labels), device=logits_NV.device)
        return smoothed_loss(logits_NV, batch.labels, options, len(row_N), row_N, training=model.training)
