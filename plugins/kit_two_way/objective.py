"""Bidirectional language modeling objective: each token from its left and right context (Peters et al. 2018)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F

from kit import Batch, Loss, Model, Objective, Options, Supports


class TwoWayOptions(Options):
    """Options of `two_way`."""

    use: Literal["two_way"] = "two_way"


class TwoWayObjective(Objective):
    """Cross-entropy of each token given its context; the stack must not see the token itself, or it would copy it."""

    options_type = TwoWayOptions
    options: TwoWayOptions
    supports = (Supports("encoder", "text", "mlm_block"),)

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """Every token."""
        return length

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Summed cross-entropy over all real tokens."""
        tokens = batch.source
        assert tokens is not None
        logits = model(tokens, packed=True)
        logits = logits.flatten(0, -2)
        gold = tokens.ids.flatten() if tokens.padding_mask is None else tokens.ids[tokens.padding_mask]
        total = F.cross_entropy(logits, gold, reduction="sum")
        correct = None if model.training else (logits.argmax(1) == gold).sum()
        return Loss(total, gold.numel(), total.detach(), correct)
