"""A masked language model: hidden tokens are told from all the others (BERT, Devlin et al. 2019, section 3.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, Self

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from kit import Batch, KitError, Loss, Model, Objective, Serves, Special
from kit_objective.cross_entropy import SmoothedOptions, loss_of
from kit_objective.shifting import places, real, rows_of


class MaskedOptions(SmoothedOptions):
    """Options of `masked`."""

    use: Literal["masked"] = "masked"
    share: float = Field(default=0.15, gt=0.0, lt=1.0)
    """The share of a row's tokens that are predicted, at least one."""
    hidden: float = Field(default=0.8, ge=0.0, le=1.0)
    """Of those, the share that the model sees as the mask token."""
    swapped: float = Field(default=0.1, ge=0.0, le=1.0)
    """Of those, the share that it sees as another token at random; the rest it sees as they are."""

    @model_validator(mode="after")
    def _shares_of_a_whole(self) -> Self:
        if self.hidden + self.swapped > 1:
            raise ValueError(f"hidden ({self.hidden}) and swapped ({self.swapped}) are more than the whole together")
        return self


class MaskedObjective(Objective):
    """Filling in what was hidden."""

    options_type = MaskedOptions
    options: MaskedOptions
    serves = (Serves("encoder", "text", "blocks", default=True),)

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """A fixed share of the row."""
        return max(1, round(self.options.share * length))

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Over the chosen tokens only."""
        assert batch.source is not None
        tokens = batch.source
        ids, chosen = self.disturb(tokens.ids, tokens.valid, batch, _vocabulary(model))
        scores = rows_of(model(replace(tokens, ids=ids), packed=True))
        kept = real(chosen, tokens.valid)
        gold = real(tokens.ids, tokens.valid)[kept]
        return loss_of(scores[kept], gold, self.options, model.training, places(tokens.ids, tokens.valid, kept))

    def disturb(self, ids: Tensor, valid: Tensor | None, batch: Batch, vocabulary: int) -> tuple[Tensor, Tensor]:
        """What the model sees, and which tokens are predicted; special tokens are neither chosen nor put in."""
        original = ids.cpu().numpy()
        seen, chosen = original.copy(), np.zeros(original.shape, dtype=bool)
        for row, index in enumerate(batch.indices):
            generator = np.random.default_rng([self.seed, batch.step, index])
            length = original.shape[1] if valid is None else int(valid[row].sum())
            text = np.flatnonzero(original[row, :length] >= len(Special))
            places = generator.permutation(text)[: self.predicts(batch.step, index, length)]
            fate = generator.random(len(places))
            others = generator.integers(min(len(Special), vocabulary - 1), vocabulary, len(places))
            seen[row, places] = np.where(
                fate < self.options.hidden,
                int(Special.MASK),
                np.where(fate < self.options.hidden + self.options.swapped, others, original[row, places]),
            )
            chosen[row, places] = True
        return torch.from_numpy(seen).to(ids.device), torch.from_numpy(chosen).to(ids.device)


def _vocabulary(model: Model) -> int:
    size = model.head.dims.vocabulary
    if size is None:
        raise KitError("a masked language model needs a head that scores the vocabulary")
    return size
