"""Norm before the sublayer, inside the skip: On Layer Normalization in the Transformer (Xiong et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class PreOptions(Options):
    """x becomes x + sublayer(norm(x))."""

    use: Literal["pre"] = "pre"


class PreResidual(Residual):
    """The stream is never normalised, so gradients reach every layer; the stack ends in a norm."""

    options_type = PreOptions
    yardstick = True
    final_norm = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = x + self.dropout(sublayer(norm(x)))
        return x
