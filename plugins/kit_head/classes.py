"""A score for every class of a text, read off one vector for the whole of it (Devlin et al. 2019)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from kit import Dims, Dropout, Embedding, Head, Layout, Options, Site


class ClassesOptions(Options):
    """Classifies whole texts."""

    use: Literal["classes"] = "classes"
    classes: int = Field(ge=2)
    """How many classes there are."""
    pool: Literal["first", "mean", "last"] = "mean"
    """Which vector speaks for the text: the first token's, the mean of all, or the last token's."""


class ClassesHead(Head):
    """Pools the text into one vector and scores the classes."""

    options_type = ClassesOptions
    options: ClassesOptions
    per_token = False

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.dropout = Dropout(dims.dropout)
        self.score = nn.Linear(dims.width, options.classes)

    def forward(self, x: Tensor, layout: Layout, embedding: Embedding | None) -> Tensor:
        """x: [..., width] as the layout carries it; returns [rows, classes]; no tokens pool to zeros."""
        x_BLD = layout.pad(x)
        scores: Tensor = self.score(self.dropout(self._pool(x_BLD, layout.valid)))
        return scores

    def _pool(self, x_BLD: Tensor, valid_BL: Tensor | None) -> Tensor:
        if valid_BL is None:
            pooled = {"first": lambda: x_BLD[:, 0], "last": lambda: x_BLD[:, -1], "mean": lambda: x_BLD.mean(1)}
            return pooled[self.options.pool]()
        real_BL = valid_BL.to(x_BLD.dtype)
        if self.options.pool == "first":
            # Weight 1 for the first real token of a row, 0 for all others.
            real_BL = real_BL * (real_BL.cumsum(1) == 1)
        elif self.options.pool == "last":
            real_BL = real_BL * (real_BL.flip(1).cumsum(1).flip(1) == 1)
        return (x_BLD * real_BL[:, :, None]).sum(1) / real_BL.sum(1, keepdim=True).clamp(min=1)
