"""Parallel sublayers on the same input: GPT-J (Wang and Komatsuzaki 2021), GPT-NeoX (Black et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class ParallelOptions(Options):
    """Parallel sublayers: x + attention(norm(x)) + feedforward(norm(x))."""

    use: Literal["parallel"] = "parallel"
    norms: Literal["one", "each"] = "one"
    """One norm for all sublayers (GPT-J), or one for each (GPT-NeoX)."""


class ParallelResidual(Residual):
    """Pre-norm with parallel sublayers; the stack ends in a norm."""

    options_type = ParallelOptions
    options: ParallelOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        names = build_context.sublayers if options.norms == "each" else ("all",)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in names})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]; the same shape."""
        normed = [norm(x) for norm in self.norms.values()]
        if len(normed) == 1:
            normed *= len(sublayers)
        for y, sublayer in zip(normed, sublayers, strict=True):
            x = x + self.dropout(sublayer(y))
        return x
