"""Classification: the class of a whole text."""

from __future__ import annotations

from typing import Literal

import torch

from kit import Batch, Loss, Model, Objective, Serves
from kit_objective.cross_entropy import SmoothedOptions, Spread, loss_of


class ClassesOptions(SmoothedOptions):
    """Options of `classes`; there is no padding among classes, so that `others_but_padding` means `others`."""

    use: Literal["classes"] = "classes"


class ClassesObjective(Objective):
    """Telling the class of a text."""

    options_type = ClassesOptions
    options: ClassesOptions
    serves = (
        Serves("encoder", "labelled", "texts", default=True),
        Serves("decoder", "labelled", "texts", default=True),
    )
    per_token = False

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Over the texts."""
        assert batch.source is not None and batch.labels is not None
        scores = model(batch.source, packed=True)
        spread: Spread = "all" if self.options.spread == "all" else "others"
        options = self.options.model_copy(update={"spread": spread})
        rows = len(batch.labels)
        return loss_of(scores, batch.labels, options, model.training, (rows, torch.arange(rows, device=scores.device)))
