"""The contract of a regularizer: an auxiliary loss on attention, or a change to head outputs in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from pydantic import Field
from torch import Tensor

from kit.contracts.part import Part
from kit.contracts.probe import AttentionKind
from kit.plugin.component import BuildContext, Options
from kit.sequence.observer import AttentionObserver

if TYPE_CHECKING:
    from kit.sequence.attention_context import AttentionContext


class RegularizerOptions(Options):
    """Options of every regularizer."""

    strength: float = 0.01
    """The coefficient of its auxiliary loss."""
    where: list[AttentionKind] = Field(default=["encoder", "decoder", "cross"], min_length=1)
    """The attention it applies to: encoder and decoder self-attention, and cross-attention."""


class Regularizer(Part, AttentionObserver):
    """Observes attention while the model is trained; `add_loss` in any observer method adds an auxiliary loss.

    The auxiliary loss should be a mean over sequences and tokens, so that it does not depend on the batch size.
    """

    kind = "regularizer"

    options: RegularizerOptions

    def attach(self, heads: Mapping[str, int]) -> None:
        """Called once with the number of heads of each attention module that it applies to, by module path."""
        self.head_counts = dict(heads)

    @property
    def active(self) -> bool:
        """Whether it observes now: in training, unless it changes what the model computes in evaluation too."""
        return self.training and torch.is_grad_enabled()

    def begin(self, stack: str) -> None:
        """Called before the forward pass of the encoder or the decoder."""

    def gates(self) -> Mapping[str, Tensor]:
        """[H] by module path: the gate of each head, from 0 to 1; empty without gates."""
        return {}

    def select_heads(self, chosen: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """Its parameters after head pruning, by the heads that each module keeps; modules not named keep all."""
        return dict(self.state_dict())

    def applies_to(self, build_context: BuildContext) -> bool:
        """Whether an attention module is one of those that it was attached to."""
        return build_context.name in self.head_counts

    def visible_keys(self, context: AttentionContext) -> Tensor:
        """[B, Q]: the number of keys each query may attend to; 0 for padding."""
        queries = context.queries
        if context.attention_mask is None:
            counts = queries.token_index.new_full((queries.rows, queries.length), context.keys.length)
        else:
            counts = context.attention_mask[:, 0].sum(-1).expand(queries.rows, queries.length)
        return counts if queries.padding_mask is None else counts * queries.padding_mask
