"""Prefix language modeling: the rest of a sequence is predicted from its prefix (Raffel et al. 2020, 3.2.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from kit import Batch, DecoderModel, DecodingSession, Loss, Model, Objective, Special, Supports, TokenBatch
from kit_objective.cross_entropy import SmoothedOptions, smoothed_loss
from kit_objective.packed_labels import flatten_logits, pack, pack_rows, shift_right


class PrefixOptions(SmoothedOptions):
    """Options of `prefix`."""

    use: Literal["prefix"] = "prefix"


class PrefixObjective(Objective):
    """The target of a pair from its source, in one stack; or a window from a prefix of random length."""

    options_type = PrefixOptions
    options: PrefixOptions
    brings = frozenset({"prefix"})
    supports = (Supports("decoder", "pairs", "prefix_lm", default=True), Supports("decoder", "text", "lm_window"))

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """The length of a window after its prefix; rows of pairs know their targets."""
        return length - self._cut(step, index, length)

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The loss over all tokens after the prefix."""
        assert batch.source is not None
        tokens = batch.source if "prefix" in batch.source.features else self._with_prefix(batch.source, batch)
        inputs, following, padding_mask = shift_right(tokens)
        logits_NV = flatten_logits(model(inputs, packed=True))
        kept_N = pack(~tokens.features["prefix"][:, 1:].bool(), padding_mask)
        return smoothed_loss(
            logits_NV[kept_N],
            pack(following, padding_mask)[kept_N],
            self.options,
            len(following),
            pack_rows(following, padding_mask)[kept_N],
            training=model.training,
            overwrite=True,
        )

    def begin(self, model: Model, batch: Batch) -> tuple[DecodingSession, TokenBatch] | None:
        """The session and the prompt: the source of a pair and the separator, or the whole row of a window."""
        assert isinstance(model, DecoderModel) and batch.source is not None
        tokens, padding_mask = batch.source, batch.source.padding_mask
        whole = torch.ones_like(tokens.ids, dtype=torch.bool) if padding_mask is None else padding_mask
        prefix = tokens.features.get("prefix", whole).bool()
        longest = int(prefix.sum(1).max())
        ids = torch.where(prefix, tokens.ids, int(Special.PADDING))[:, :longest]
        shown = prefix[:, :longest]
        features = {name: feature[:, :longest] for name, feature in tokens.features.items()} | {"prefix": shown}
        return model.start(), TokenBatch(ids, None if bool(shown.all()) else shown, features, right_padded=True)

    def _cut(self, step: int, index: int, length: int) -> int:
        """The length of a window's prefix: at least one token is given, and one predicted."""
        return int(np.random.default_rng([self.seed, step, index]).integers(1, max(2, length)))

    def _with_prefix(self, tokens: TokenBatch, batch: Batch) -> TokenBatch:
        rows, length = tokens.ids.shape
        lengths = [length] * rows if tokens.padding_mask is None else tokens.padding_mask.sum(1).tolist()
        cuts = [self._cut(batch.step, index, size) for index, size in zip(batch.indices, lengths, strict=True)]
        positions = torch.arange(length, device=tokens.ids.device)
        prefix = positions < torch.tensor(cuts, device=tokens.ids.device)[:, None]
        return replace(tokens, features={**tokens.features, "prefix": prefix})
