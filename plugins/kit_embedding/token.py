"""A table with one vector a token, shared with the output where a recipe ties them (Press and Wolf 2017)."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from kit import Dims, Embedding, Options, Site, linear


class TableOptions(Options):
    """What embeddings with a table of tokens have in common."""

    scale: bool = False
    """Whether token vectors are multiplied by sqrt(width), as in Attention Is All You Need, section 3.4."""


class TokenOptions(TableOptions):
    """A table of token vectors."""

    use: Literal["token"] = "token"


class TokenEmbedding(Embedding):
    """Looks vectors up; the way back is the dot product with every vector."""

    options_type: ClassVar[type[Options]] = TokenOptions
    options: TableOptions
    default = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        assert dims.vocabulary is not None
        self.table = nn.Parameter(torch.empty(dims.vocabulary, dims.width))
        self.factor = dims.width**0.5 if options.scale else 1.0
        nn.init.normal_(self.table, std=dims.width**-0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]."""
        x = F.embedding(ids, self.table)
        return x * self.factor if self.factor != 1.0 else x

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns [..., vocabulary]."""
        return linear(x, self.table)

    def matrix(self) -> Tensor | None:
        """The table."""
        return self.table if type(self).project is TokenEmbedding.project else None
