"""Factorized embedding, a low-rank table and an up projection: ALBERT (Lan et al. 2020), section 3.1.

Shapes: V token ids, R rank, D model width; the table is [V, R], the projection [D, R].
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Embedding, Options


class FactorizedOptions(Options):
    """Factorized embeddings: a table of lower rank, projected to the model's width."""

    use: Literal["factorized"] = "factorized"
    rank: PositiveInt = 128
    """Rank: the width of the table."""
    bias: bool = True
    """Whether the up projection has a bias, as in ALBERT."""
    scale: bool = False
    """Whether embeddings are multiplied by sqrt(width), as in Attention Is All You Need, section 3.4."""


class FactorizedEmbedding(Embedding):
    """Table and up projection; tied logits go through both matrices, as dot products with the embeddings."""

    options_type = FactorizedOptions
    options: FactorizedOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        assert dims.vocabulary is not None
        self.table = nn.Parameter(torch.empty(dims.vocabulary, options.rank))
        self.up = nn.Parameter(torch.empty(dims.width, options.rank))
        self.bias = nn.Parameter(torch.zeros(dims.width)) if options.bias else None
        self.factor = dims.width**0.5 if options.scale else 1.0
        # The product has the variance of a full table, 1 / width per element.
        nn.init.normal_(self.table)
        nn.init.normal_(self.up, std=(dims.width * options.rank) ** -0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]."""
        x = F.linear(F.embedding(ids, self.table), self.up, self.bias)
        return x * self.factor if self.factor != 1.0 else x

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; logits [..., vocabulary], without the bias, which would shift all of them alike."""
        return F.linear(x @ self.up, self.table)
