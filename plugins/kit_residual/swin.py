"""Res-post-norm, on the output of each sublayer: Swin Transformer V2 (Liu et al. 2022), OLMo 2 (2024)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class SwinOptions(Options):
    """Res-post-norm: x + norm(sublayer(x))."""

    use: Literal["swin"] = "swin"


class SwinResidual(Residual):
    """Normalises the output of every sublayer before the skip; the stack ends in a norm."""

    options_type = SwinOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = x + self.dropout(norm(sublayer(x)))
        return x
