"""A language model: each token from those before it (Bengio et al. 2003; Radford et al. 2018)."""

from __future__ import annotations

from typing import Literal

from kit import Batch, DecoderModel, Loss, Model, Objective, Serves, Session, Tokens
from kit_objective.cross_entropy import SmoothedOptions, loss_of
from kit_objective.shifting import places, real, rows_of, shifted


class CausalOptions(SmoothedOptions):
    """Options of `causal`."""

    use: Literal["causal"] = "causal"


class CausalObjective(Objective):
    """Continuing a text."""

    options_type = CausalOptions
    options: CausalOptions
    serves = (Serves("decoder", "text", "windows", default=True),)

    def loss(self, model: Model, batch: Batch) -> Loss:
        """Over all tokens that have one of their own document before them."""
        assert batch.source is not None
        inputs, following, valid = shifted(batch.source)
        scores, gold = rows_of(model(inputs, packed=True)), real(following, valid)
        kept = None
        document = batch.source.facts.get("document")
        if document is not None:
            kept = real(document[:, 1:] == document[:, :-1], valid)
            scores, gold = scores[kept], gold[kept]
        return loss_of(scores, gold, self.options, model.training, places(following, valid, kept))

    def begin(self, model: Model, batch: Batch) -> tuple[Session, Tokens] | None:
        """Read the whole row: what is written goes on from it."""
        assert isinstance(model, DecoderModel) and batch.source is not None
        return model.start(), batch.source
