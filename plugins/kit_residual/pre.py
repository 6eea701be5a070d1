"""Pre-norm residual: On Layer Normalization in the Transformer (Xiong et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class PreOptions(Options):
    """Pre-norm: x + sublayer(norm(x))."""

    use: Literal["pre"] = "pre"


class PreResidual(Residual):
    """Normalises the input of every sublayer; the stack ends in a norm."""

    options_type = PreOptions
    is_baseline = True
    final_norm = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = x + self.dropout(sublayer(norm(x)))
        return x
