"""Sequence to sequence: each token of the target from the source and the target before it (Sutskever et al. 2014)."""

from __future__ import annotations

from typing import Literal

import torch

from kit import Batch, EncoderDecoder, Loss, Model, Objective, Serves, Session, Special, Tokens
from kit_objective.cross_entropy import SmoothedOptions, loss_of
from kit_objective.shifting import places, real, rows_of, shifted


class SequenceOptions(SmoothedOptions):
    """Options of `sequence`."""

    use: Literal["sequence"] = "sequence"


class SequenceObjective(Objective):
    """Writing the target of a pair, with its end."""

    options_type = SequenceOptions
    options: SequenceOptions
    serves = (Serves("encoder-decoder", "pairs", "pairs", default=True),)

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Over all tokens of the targets but the first."""
        assert batch.source is not None and batch.target is not None
        inputs, following, valid = shifted(batch.target)
        scores = rows_of(model(batch.source, inputs, packed=True))
        return loss_of(scores, real(following, valid), self.options, model.training, places(following, valid))

    def begin(self, model: Model, batch: Batch) -> tuple[Session, Tokens] | None:
        """Read the source, then the start of the target."""
        assert isinstance(model, EncoderDecoder) and batch.source is not None
        ids = batch.source.ids
        return model.start(batch.source), Tokens(torch.full_like(ids[:, :1], int(Special.START)), right_padded=True)
