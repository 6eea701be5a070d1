"""No norm: for residuals that keep a stream in bounds by themselves, such as ReZero (Bachlechner et al. 2020)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from kit import Norm, Options


class NoneOptions(Options):
    """No normalization."""

    use: Literal["none"] = "none"


class NoNorm(Norm):
    """The identity."""

    options_type = NoneOptions

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., width]; x itself."""
        return x
