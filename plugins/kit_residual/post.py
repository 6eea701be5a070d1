"""Norm after the skip: Attention Is All You Need (Vaswani et al. 2017), section 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class PostOptions(Options):
    """x becomes norm(x + sublayer(x))."""

    use: Literal["post"] = "post"


class PostResidual(Residual):
    """The stream itself is normalised after every sublayer."""

    options_type = PostOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = norm(x + self.dropout(sublayer(x)))
        return x
