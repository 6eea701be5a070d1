"""Every token of a text from those on both sides of it, for a stack that does not see it (Peters et al. 2018)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F

from kit import Batch, Loss, Model, Objective, Options, Serves


class TwoWayOptions(Options):
    """Options of `two_way`."""

    use: Literal["two_way"] = "two_way"


class TwoWayObjective(Objective):
    """Guessing each token from its surroundings; a model that sees the token itself would learn to copy it."""

    options_type = TwoWayOptions
    options: TwoWayOptions
    serves = (Serves("encoder", "text", "blocks"),)

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """All of them."""
        return length

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Over all real tokens."""
        tokens = batch.source
        assert tokens is not None
        scores = model(tokens, packed=True)
        scores = scores.flatten(0, -2)
        gold = tokens.ids.flatten() if tokens.valid is None else tokens.ids[tokens.valid]
        total = F.cross_entropy(scores, gold, reduction="sum")
        correct = None if model.training else (scores.argmax(1) == gold).sum()
        return Loss(total, gold.numel(), total.detach(), correct)
