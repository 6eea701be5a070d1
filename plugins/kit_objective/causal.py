"""Causal language modeling: each token is predicted from those before it (Bengio et al. 2003; Radford et al. 2018)."""

from __future__ import annotations

from typing import Literal

from kit import Batch, DecoderModel, DecodingSession, Loss, Model, Objective, Supports, TokenBatch
from kit_objective.cross_entropy import SmoothedOptions, smoothed_loss
from kit_objective.packed_labels import flatten_logits, pack, pack_rows, shift_right


class CausalOptions(SmoothedOptions):
    """Options of `causal`."""

    use: Literal["causal"] = "causal"


class CausalObjective(Objective):
    """Causal language modeling over documents or windows of them."""

    options_type = CausalOptions
    options: CausalOptions
    supports = (Supports("decoder", "text", "lm_window", default=True),)

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The loss over all tokens that have one of their own document before them."""
        assert batch.source is not None
        inputs, following, padding_mask = shift_right(batch.source)
        logits_NV, labels_N = flatten_logits(model(inputs, packed=True)), pack(following, padding_mask)
        row_N, overwrite = pack_rows(following, padding_mask), model.overwritable_logits
        document = batch.source.features.get("document")
        if document is not None:
            kept_N = pack(document[:, 1:] == document[:, :-1], padding_mask)
            logits_NV, labels_N, row_N, overwrite = logits_NV[kept_N], labels_N[kept_N], row_N[kept_N], True
        return smoothed_loss(
            logits_NV,
            labels_N,
            self.options,
            len(following),
            row_N,
            training=model.training,
            overwrite=overwrite,
        )

    def begin(self, model: Model, batch: Batch) -> tuple[DecodingSession, TokenBatch] | None:
        """The session and the prompt: the whole row."""
        assert isinstance(model, DecoderModel) and batch.source is not None
        return model.start(), batch.source
