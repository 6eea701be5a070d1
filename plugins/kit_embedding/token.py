"""Token embedding table, shared with the output projection where tied (Press and Wolf 2017)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import BuildContext, Dims, Embedding, Options, linear


class TableOptions(Options):
    """Options of embeddings with a token table."""

    scale: bool = False
    """Whether embeddings are multiplied by sqrt(width), as in Attention Is All You Need, section 3.4."""


class TokenOptions(TableOptions):
    """Token embedding table."""

    use: Literal["token"] = "token"


class TokenEmbedding(Embedding):
    """A look-up table; tied logits are dot products with its rows."""

    options_type: ClassVar[type[Options]] = TokenOptions
    options: TableOptions
    default = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        assert dims.vocabulary is not None
        self.table = nn.Parameter(torch.empty(dims.vocabulary, dims.width))
        self.factor = dims.width**0.5 if options.scale else 1.0
        nn.init.normal_(self.table, std=dims.width**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]."""
        x = F.embedding(ids, self.table)
        return x * self.factor if self.factor != 1.0 else x

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; logits [..., vocabulary]."""
        return linear(x, self.table)

    def matrix(self) -> Tensor | None:
        """The table: [vocabulary, width]."""
        return self.table if type(self).project is TokenEmbedding.project else None
