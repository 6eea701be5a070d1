"""Sequence to sequence: target tokens are predicted from the source and those before them (Sutskever et al. 2014)."""

from __future__ import annotations

from typing import Literal

import torch

from kit import Batch, DecodingSession, EncoderDecoder, Loss, Model, Objective, Special, Supports, TokenBatch
from kit_objective.cross_entropy import SmoothedOptions, smoothed_loss
from kit_objective.packed_labels import flatten_logits, pack, pack_rows, shift_right


class SequenceOptions(SmoothedOptions):
    """Options of `sequence`."""

    use: Literal["sequence"] = "sequence"


class SequenceObjective(Objective):
    """The target of a pair, end token included, from its source."""

    options_type = SequenceOptions
    options: SequenceOptions
    supports = (Supports("encoder-decoder", "pairs", "seq2seq", default=True),)

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The loss over all tokens of the targets but the first."""
        assert batch.source is not None and batch.target is not None
        inputs, following, padding_mask = shift_right(batch.target)
        return smoothed_loss(
            flatten_logits(model(batch.source, inputs, packed=True)),
            pack(following, padding_mask),
            self.options,
            len(following),
            pack_rows(following, padding_mask),
            training=model.training,
            overwrite=model.overwritable_logits,
        )

    def begin(self, model: Model, batch: Batch) -> tuple[DecodingSession, TokenBatch] | None:
        """The session on the source, and the start token of each target."""
        assert isinstance(model, EncoderDecoder) and batch.source is not None
        ids = batch.source.ids
        return model.start(batch.source), TokenBatch(torch.full_like(ids[:, :1], int(Special.START)), right_padded=True)
