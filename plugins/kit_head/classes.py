"""Sequence classification head: logits of classes from one pooled vector (Devlin et al. 2019)."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field
from torch import Tensor, nn

from kit import BatchLayout, BuildContext, Dims, Dropout, Embedding, Head, Options


class ClassesOptions(Options):
    """Sequence classification."""

    use: Literal["classes"] = "classes"
    classes: int = Field(ge=2)
    """Number of classes."""
    pool: Literal["first", "mean", "last"] = "mean"
    """Pooling: the first token, the mean of all, or the last token."""


class ClassesHead(Head):
    """Pools each sequence and projects it to class logits."""

    options_type = ClassesOptions
    options: ClassesOptions
    per_token = False

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.dropout = Dropout(dims.dropout)
        self.score = nn.Linear(dims.width, options.classes)

    def forward(self, x: Tensor, layout: BatchLayout, embedding: Embedding | None) -> Tensor:
        """x: [..., width] as the layout carries it; logits [rows, classes]; empty sequences pool to zeros."""
        x_BLD = layout.pad(x)
        logits: Tensor = self.score(self.dropout(self._pool(x_BLD, layout.padding_mask)))
        return logits

    def _pool(self, x_BLD: Tensor, padding_mask_BL: Tensor | None) -> Tensor:
        if padding_mask_BL is None:
            pooled = {"first": lambda: x_BLD[:, 0], "last": lambda: x_BLD[:, -1], "mean": lambda: x_BLD.mean(1)}
            return pooled[self.options.pool]()
        real_BL = padding_mask_BL.to(x_BLD.dtype)
        if self.options.pool == "first":
            # Weight 1 for the first real token of a row, 0 for all others.
            real_BL = real_BL * (real_BL.cumsum(1) == 1)
        elif self.options.pool == "last":
            real_BL = real_BL * (real_BL.flip(1).cumsum(1).flip(1) == 1)
        return (x_BLD * real_BL[:, :, None]).sum(1) / real_BL.sum(1, keepdim=True).clamp(min=1)
