"""Post-norm residual: Attention Is All You Need (Vaswani et al. 2017), section 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class PostOptions(Options):
    """Post-norm: norm(x + sublayer(x))."""

    use: Literal["post"] = "post"


class PostResidual(Residual):
    """Normalises the residual stream after every sublayer."""

    options_type = PostOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            x = norm(x + self.dropout(sublayer(x)))
        return x
