"""Masked language modeling: masked tokens are predicted from all others (BERT, Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from kit import Batch, KitError, Loss, Model, Objective, Special, Supports
from kit_objective.cross_entropy import SmoothedOptions, smoothed_loss
from kit_objective.packed_labels import flatten_logits, pack, pack_rows


class MaskedOptions(SmoothedOptions):
    """Options of `masked`."""

    use: Literal["masked"] = "masked"
    mlm_probability: float = Field(default=0.15, gt=0.0, lt=1.0)
    """The fraction of a row's tokens that are predicted, at least one."""
    mask_replace_prob: float = Field(default=0.8, ge=0.0, le=1.0)
    """The fraction of those that the model sees as the mask token."""
    random_replace_prob: float = Field(default=0.1, ge=0.0, le=1.0)
    """The fraction of those that it sees as a random token; the rest it sees as they are."""

    @model_validator(mode="after")
    def _fractions_sum_to_one(self) -> Self:
        if self.mask_replace_prob + self.random_replace_prob > 1:
            raise ValueError(
                f"mask_replace_prob ({self.mask_replace_prob}) and random_replace_prob ({self.random_replace_prob}) "
                "sum to more than 1"
            )
        return self


class MaskedObjective(Objective):
    """Masked language modeling."""

    options_type = MaskedOptions
    options: MaskedOptions
    supports = (Supports("encoder", "text", "mlm_block", default=True),)

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """A fixed fraction of the row."""
        return max(1, round(self.options.mlm_probability * length))

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The loss over the chosen tokens only."""
        assert batch.source is not None
        tokens = batch.source
        ids, chosen = self.mask(tokens.ids, tokens.padding_mask, batch, _vocabulary(model))
        logits_NV = flatten_logits(model(replace(tokens, ids=ids), packed=True))
        kept_N = pack(chosen, tokens.padding_mask)
        return smoothed_loss(
            logits_NV[kept_N],
            pack(tokens.ids, tokens.padding_mask)[kept_N],
            self.options,
            len(tokens.ids),
            pack_rows(tokens.ids, tokens.padding_mask)[kept_N],
            training=model.training,
            overwrite=True,
        )

    def mask(self, ids: Tensor, padding_mask: Tensor | None, batch: Batch, vocabulary: int) -> tuple[Tensor, Tensor]:
        """The masked ids, and which tokens are predicted; special tokens are neither chosen nor inserted."""
        original = ids.cpu().numpy()
        seen, chosen = original.copy(), np.zeros(original.shape, dtype=bool)
        for row, index in enumerate(batch.indices):
            generator = np.random.default_rng([self.seed, batch.step, index])
            length = original.shape[1] if padding_mask is None else int(padding_mask[row].sum())
            ordinary = np.flatnonzero(original[row, :length] >= len(Special))
            positions = generator.permutation(ordinary)[: self.predicts(batch.step, index, length)]
            draws = generator.random(len(positions))
            random_ids = generator.integers(min(len(Special), vocabulary - 1), vocabulary, len(positions))
            seen[row, positions] = np.where(
                draws < self.options.mask_replace_prob,
                int(Special.MASK),
                np.where(
                    draws < self.options.mask_replace_prob + self.options.random_replace_prob,
                    random_ids,
                    original[row, positions],
                ),
            )
            chosen[row, positions] = True
        return torch.from_numpy(seen).to(ids.device), torch.from_numpy(chosen).to(ids.device)


def _vocabulary(model: Model) -> int:
    size = model.head.dims.vocabulary
    if size is None:
        raise KitError("a masked language model needs a head that scores the vocabulary")
    return size
