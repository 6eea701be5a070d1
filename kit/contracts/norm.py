"""The contract of a norm: a module over the last axis."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from kit.contracts.part import Part


class Norm(Part):
    """Brings vectors to a common size."""

    kind = "norm"

    @abstractmethod
    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns the same shape."""
