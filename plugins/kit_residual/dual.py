"""Two streams, one normalised after every sublayer and one never: ResiDual (Xie et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Dims, Options, Residual, Site, Sublayer


class DualOptions(Options):
    """a becomes norm(a + sublayer(a)) and b becomes b + sublayer(a); the stack gives a + norm(b)."""

    use: Literal["dual"] = "dual"


class DualResidual(Residual):
    """The stream is [..., 2, width]: what sublayers read, and the plain sum of what they gave."""

    options_type = DualOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in site.sublayers})
        # Only the last layer joins the streams.
        self.joining_norm = self.new_norm() if site.layer == site.depth - 1 else None

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., 2, width]."""
        a, b = x.unbind(-2)
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            y = self.dropout(sublayer(a))
            a, b = norm(a + y), b + y
        return torch.stack((a, b), -2)

    def enter(self, x: Tensor) -> Tensor:
        """Both streams begin as the token vectors."""
        return torch.stack((x, x), -2)

    def leave(self, stream: Tensor) -> Tensor:
        """The normalised stream, and the other one normalised at last."""
        assert self.joining_norm is not None, "only the last layer of a stack joins the streams"
        a, b = stream.unbind(-2)
        joined: Tensor = a + self.joining_norm(b)
        return joined
