"""The contract of a head: what is read off the last layer."""

from __future__ import annotations

from abc import abstractmethod

from torch import Tensor

from kit.contracts.embedding import Embedding
from kit.contracts.part import Part
from kit.layout import Layout


class Head(Part):
    """Turns the vectors of the last layer into scores."""

    kind = "head"

    per_token: bool = True
    """Whether every token gets scores, or every text."""

    @abstractmethod
    def forward(self, x: Tensor, layout: Layout, embedding: Embedding | None) -> Tensor:
        """x: [..., width] as `layout` carries it; `embedding` is the table to share, where a recipe ties them.

        Returns [..., choices] for every token, or [rows, choices] where `per_token` is false.
        """

    def matrix(self, embedding: Embedding | None) -> tuple[Tensor, Tensor | None] | None:
        """[choices, width] and [choices]: the matrix and the bias that make scores of a vector, where they are all.

        None by default. Who knows them can lay them out in memory as suits him.
        """
        return None
