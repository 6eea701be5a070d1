"""Contracts of embeddings and output heads: token ids to vectors, hidden states to logits, tied or not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from kit.contracts.part import Part
from kit.sequence.batch_layout import BatchLayout


class Embedding(Part):
    """Maps token ids to vectors; `project` computes logits with the same (tied) weights."""

    kind = "embedding"

    reads: ClassVar[tuple[str, ...]] = ()
    """Names of the token features that `mark` uses; without any, it is not called."""

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...] integers below `dims.vocabulary`; returns [..., width]."""

    def mark(self, x: Tensor, features: Mapping[str, Tensor]) -> Tensor:
        """Adds embeddings of token features. x: [..., width], from `forward`; features: those of `reads`, [...] each.

        Returns [..., width]; x itself by default.
        """
        return x

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns logits [..., vocabulary]."""

    def matrix(self) -> Tensor | None:
        """The matrix [vocabulary, width] if `project` is a plain matrix product; None by default."""
        return None


class Head(Part):
    """Computes logits from hidden states of the last layer."""

    kind = "head"

    per_token: bool = True
    """Whether there are logits for every token, or one row of them for a whole sequence."""

    @abstractmethod
    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        """x: [..., width] in this layout; embedding: the embedding to share weights with, if a recipe ties them.

        Returns logits [..., classes] for every token, or [B, classes] if `per_token` is false.
        """

    def keeps_logits(self, embedding: Embedding | None) -> bool:
        """Whether the backward pass reads the logits that `forward` returned; if not, a loss may overwrite them."""
        return True

    def matrix(self, embedding: Embedding | None) -> tuple[Tensor, Tensor | None] | None:
        """The weight [classes, width] and bias [classes], for prepacking; None if logits are no plain linear layer."""
        return None
