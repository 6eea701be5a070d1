"""Classification: the class of a whole text."""

from __future__ import annotations

from typing import Literal

from kit import Batch, Loss, Model, Objective, Serves
from kit_objective.cross_entropy import SmoothedOptions, Smoothing, Spread, cross_entropy


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
        total, nats = cross_entropy(scores, batch.labels, Smoothing(self.options.smoothing, spread))
        correct = None if model.training else (scores.argmax(1) == batch.labels).sum()
        return Loss(total, len(batch.labels), nats, correct)
