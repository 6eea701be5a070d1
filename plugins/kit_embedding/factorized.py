"""A narrow table and one matrix up to the model's width: ALBERT (Lan et al. 2020), section 3.1.

The table is [V, R] and the matrix [D, R]: V token ids, R rank, D width.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
import torch.nn.functional as F
from pydantic import PositiveInt
from torch import Tensor, nn

from kit import Dims, Embedding, Options, Site


class FactorizedOptions(Options):
    """Token vectors of a smaller width, brought up to the model's: far fewer parameters for a large vocabulary."""

    use: Literal["factorized"] = "factorized"
    rank: PositiveInt = 128
    """The width of the table."""
    bias: bool = True
    """Whether the way up has a bias, as in ALBERT; the way back has no use for one."""
    scale: bool = False
    """Whether vectors are multiplied by sqrt(width), as in Attention Is All You Need, section 3.4."""


class FactorizedEmbedding(Embedding):
    """The way back goes through both matrices too, so a score is the dot product with the vector that goes in."""

    options_type = FactorizedOptions
    options: FactorizedOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        assert dims.vocabulary is not None
        self.table = nn.Parameter(torch.empty(dims.vocabulary, options.rank))
        self.up = nn.Parameter(torch.empty(dims.width, options.rank))
        self.bias = nn.Parameter(torch.zeros(dims.width)) if options.bias else None
        self.factor = dims.width**0.5 if options.scale else 1.0
        # Together they give vectors as large as those of a plain table, 1 / sqrt(width) a number.
        nn.init.normal_(self.table)
        nn.init.normal_(self.up, std=(dims.width * options.rank) ** -0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """ids: [...]; returns [..., width]."""
        x = F.linear(F.embedding(ids, self.table), self.up, self.bias)
        return x * self.factor if self.factor != 1.0 else x

    def project(self, x: Tensor) -> Tensor:
        """x: [..., width]; returns [..., vocabulary]. The bias would add the same to every score, so it is left out."""
        return F.linear(x @ self.up, self.table)
