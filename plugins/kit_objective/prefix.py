"""A prefix language model: the rest of a text from its beginning, which is given (Raffel et al. 2020, 3.2.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import torch

from kit import Batch, DecoderModel, Loss, Model, Objective, Serves, Session, Special, Tokens
from kit_objective.cross_entropy import SmoothedOptions, loss_of
from kit_objective.shifting import places, real, rows_of, shifted


class PrefixOptions(SmoothedOptions):
    """Options of `prefix`."""

    use: Literal["prefix"] = "prefix"


class PrefixObjective(Objective):
    """The target of a pair from its source, in one stack; or any text from a beginning of random length."""

    options_type = PrefixOptions
    options: PrefixOptions
    brings = frozenset({"prefix"})
    serves = (Serves("decoder", "pairs", "prefixed", default=True), Serves("decoder", "text", "windows"))

    def predicts(self, step: int, index: int, length: int) -> int | None:
        """What the beginning leaves of a window; in pairs, the rows know their targets."""
        return length - self._cut(step, index, length)

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Over all tokens after the prefix."""
        assert batch.source is not None
        tokens = batch.source if "prefix" in batch.source.facts else self._divided(batch.source, batch)
        inputs, following, valid = shifted(tokens)
        scores = rows_of(model(inputs, packed=True))
        kept = real(~tokens.facts["prefix"][:, 1:].bool(), valid)
        gold = real(following, valid)[kept]
        return loss_of(scores[kept], gold, self.options, model.training, places(following, valid, kept))

    def begin(self, model: Model, batch: Batch) -> tuple[Session, Tokens] | None:
        """Read the prefix: the source of a pair and the separator; of a text, the whole row."""
        assert isinstance(model, DecoderModel) and batch.source is not None
        tokens, valid = batch.source, batch.source.valid
        whole = torch.ones_like(tokens.ids, dtype=torch.bool) if valid is None else valid
        prefix = tokens.facts.get("prefix", whole).bool()
        longest = int(prefix.sum(1).max())
        ids = torch.where(prefix, tokens.ids, int(Special.PADDING))[:, :longest]
        shown = prefix[:, :longest]
        facts = {name: fact[:, :longest] for name, fact in tokens.facts.items()} | {"prefix": shown}
        return model.start(), Tokens(ids, None if bool(shown.all()) else shown, facts, right_padded=True)

    def _cut(self, step: int, index: int, length: int) -> int:
        """Where a window's prefix ends: at least one token is given, and one predicted."""
        return int(np.random.default_rng([self.seed, step, index]).integers(1, max(2, length)))

    def _divided(self, tokens: Tokens, batch: Batch) -> Tokens:
        rows, length = tokens.ids.shape
        lengths = [length] * rows if tokens.valid is None else tokens.valid.sum(1).tolist()
        cuts = [self._cut(batch.step, index, size) for index, size in zip(batch.indices, lengths, strict=True)]
        places = torch.arange(length, device=tokens.ids.device)
        prefix = places < torch.tensor(cuts, device=tokens.ids.device)[:, None]
        return replace(tokens, facts={**tokens.facts, "prefix": prefix})
