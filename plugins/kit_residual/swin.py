"""Norm after the sublayer, before the skip: res-post-norm of Swin Transformer V2 (Liu et al. 2022); OLMo 2 (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class SwinOptions(Options):
    """x becomes x + norm(sublayer(x))."""

    use: Literal["swin"] = "swin"


class SwinResidual(Residual):
    """What a sublayer adds has a bounded size, and the stream goes into it as it is; the stack ends in a norm."""

    options_type = SwinOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = x + self.dropout(norm(sublayer(x)))
        return x
