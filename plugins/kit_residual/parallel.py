"""All sublayers side by side on the same input: GPT-J (Wang and Komatsuzaki 2021), GPT-NeoX (Black et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class ParallelOptions(Options):
    """x becomes x + attention(norm(x)) + feedforward(norm(x))."""

    use: Literal["parallel"] = "parallel"
    norms: Literal["one", "each"] = "one"
    """One norm that all sublayers read (GPT-J), or one for each of them (GPT-NeoX)."""


class ParallelResidual(Residual):
    """Sublayers of a layer do not wait for each other; the stack ends in a norm."""

    options_type = ParallelOptions
    options: ParallelOptions
    final_norm = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        names = site.sublayers if options.norms == "each" else ("all",)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in names})

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., width]."""
        normed = [norm(x) for norm in self.norms.values()]
        if len(normed) == 1:
            normed *= len(sublayers)
        for y, sublayer in zip(normed, sublayers, strict=True):
            x = x + self.dropout(sublayer(y))
        return x
