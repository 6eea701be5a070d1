"""The contract of an embedding: ids to vectors, and the tied way back."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from kit.contracts.part import Part


class Embedding(Part):
    """Turns token ids into vectors; `project` is the way back that an output layer may share."""

    kind = "embedding"

    @abstractmethod
    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...] whole numbers below `dims.vocabulary`; returns [..., width]."""

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns a score for each token id, [..., vocabulary]."""
