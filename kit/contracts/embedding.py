"""The contract of an embedding: ids to vectors, and the tied way back."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from kit.contracts.part import Part


class Embedding(Part):
    """Turns token ids into vectors; `project` is the way back that an output layer may share."""

    kind = "embedding"

    reads: ClassVar[tuple[str, ...]] = ()
    """Facts of a batch that `mark` makes use of."""

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...] whole numbers below `dims.vocabulary`; returns [..., width]."""

    def mark(self, x: Tensor, facts: Mapping[str, Tensor]) -> Tensor:
        """x: [..., width], what `forward` gave; facts: those of `reads` that the batch brings, [...] each.

        Returns x with what a batch says of tokens besides their ids; x itself by default.
        """
        return x

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns a score for each token id, [..., vocabulary]."""

    def matrix(self) -> Tensor | None:
        """[vocabulary, width]: the matrix that `project` multiplies by, where it does nothing else; None by default."""
        return None
