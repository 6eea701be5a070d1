"""The contract of a regularizer: what shapes attention in training, through a term of the loss or by changing heads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import torch
from pydantic import Field
from torch import Tensor

from kit.component import Options, Site
from kit.contracts.part import Part
from kit.watching import Watcher

if TYPE_CHECKING:
    from kit.scope import Scope

Where = Literal["encoder", "decoder", "cross"]


class RegularizerOptions(Options):
    """What all regularizers have in common."""

    strength: float = 0.01
    """What its term is multiplied by before it is added to the loss."""
    where: list[Where] = Field(default=["encoder", "decoder", "cross"], min_length=1)
    """Which attentions it shapes: those of the encoder, those of the decoder to its own text, those to the memory."""


class Regularizer(Part, Watcher):
    """Watches attention while the model is trained; `add_loss` in any of a watcher's methods adds to the objective.

    A term should be a mean over texts and tokens, so that it does not depend on how a batch is cut.
    """

    kind = "regularizer"

    options: RegularizerOptions

    def attach(self, heads: Mapping[str, int]) -> None:
        """Told once which attentions there are that it shapes, by site, and how many heads each has."""
        self.shaped = dict(heads)

    @property
    def active(self) -> bool:
        """Whether it wants to watch now: in training, unless it changes what the model computes ever after."""
        return self.training and torch.is_grad_enabled()

    def begin(self, stack: str) -> None:
        """Called before the encoder or the decoder runs."""

    def gates(self) -> Mapping[str, Tensor]:
        """How far open the gate of each head is, by site, for those that have gates: [heads], from 0 to 1."""
        return {}

    def with_heads(self, chosen: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """Its parameters where attentions have only these of their heads left; sites that are not named keep all."""
        return dict(self.state_dict())

    def shapes(self, site: Site) -> bool:
        """Whether an attention is one of those that it was told of."""
        return site.name in self.shaped

    def seen(self, scope: Scope) -> Tensor:
        """[B, Q]: how many keys each query may see; 0 for padding."""
        queries = scope.queries
        if scope.allowed is None:
            counts = queries.order.new_full((queries.rows, queries.length), scope.keys.length)
        else:
            counts = scope.allowed[:, 0].sum(-1).expand(queries.rows, queries.length)
        return counts if queries.valid is None else counts * queries.valid


def place_of(site: Site) -> Where:
    """What an attention looks at, from where it is."""
    if site.role == "cross_attention":
        return "cross"
    return "encoder" if site.stack == "encoder" else "decoder"
