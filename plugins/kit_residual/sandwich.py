"""Sandwich norm, before and after each sublayer: CogView (Ding et al. 2021), Peri-LN (Kim et al. 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class SandwichOptions(Options):
    """Sandwich norm: x + norm(sublayer(norm(x))), as in Gemma 2; Peri-LN adds the model's `embedding_norm: true`."""

    use: Literal["sandwich"] = "sandwich"


class SandwichResidual(Residual):
    """Normalises input and output of every sublayer; the stack ends in a norm."""

    options_type = SandwichOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norms_before = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})
        self.norms_after = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for before, after, sublayer in zip(
            self.norms_before.values(), self.norms_after.values(), sublayers, strict=True
        ):
            x = x + self.dropout(after(sublayer(before(x))))
        return x
