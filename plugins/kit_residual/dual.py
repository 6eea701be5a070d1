"""ResiDual: a post-norm and a pre-norm residual stream side by side (Xie et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Residual, Sublayer


class DualOptions(Options):
    """ResiDual: a = norm(a + sublayer(a)) and b = b + sublayer(a); the stack returns a + norm(b)."""

    use: Literal["dual"] = "dual"


class DualResidual(Residual):
    """The stream is [..., 2, width]: the post-norm stream that sublayers read, and the sum of their outputs."""

    options_type = DualOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.norms = nn.ModuleDict({name: self.new_norm() for name in build_context.sublayers})
        # Only the last layer joins the streams.
        self.joining_norm = self.new_norm() if build_context.layer == build_context.depth - 1 else None

    def forward(self, x: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        """x: [..., 2, width]; the same shape."""
        a, b = x.unbind(-2)
        for norm, sublayer in zip(self.norms.values(), sublayers, strict=True):
            y = self.dropout(sublayer(a))
            a, b = norm(a + y), b + y
        return torch.stack((a, b), -2)

    def begin_stream(self, x: Tensor) -> Tensor:
        """Both streams start as the token vectors: [..., 2, width]."""
        return torch.stack((x, x), -2)

    def end_stream(self, stream: Tensor) -> Tensor:
        """The post-norm stream plus the norm of the other: [..., width]."""
        assert self.joining_norm is not None, "only the last layer of a stack joins the streams"
        a, b = stream.unbind(-2)
        joined: Tensor = a + self.joining_norm(b)
        return joined
