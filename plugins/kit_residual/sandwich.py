"""Norm before and after the sublayer, inside the skip: CogView (Ding et al. 2021), Peri-LN (Kim et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class SandwichOptions(Options):
    """x becomes x + norm(sublayer(norm(x))), as in Gemma 2; Peri-LN adds the model's `embedding_norm: true`."""

    use: Literal["sandwich"] = "sandwich"


class SandwichResidual(Residual):
    """What a sublayer adds has a bounded size, whatever it computes; the stack ends in a norm."""

    options_type = SandwichOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norms_before = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})
        self.norms_after = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        for before, after, sublayer in zip(
            self.norms_before.values(), self.norms_after.values(), sublayers, strict=True
        ):
            x = x + self.dropout(after(sublayer(before(x))))
        return x
