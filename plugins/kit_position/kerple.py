"""Learned kernels of distance: KERPLE, Kernelized Relative Positional Embedding (Chi et al. 2022).

Shapes: B rows, H heads, Q queries, K keys.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import Dims, Options, Position, Site


class KerpleOptions(Options):
    """Every head learns how fast attention falls off with distance."""

    use: Literal["kerple"] = "kerple"
    kernel: Literal["log", "power"] = "log"
    """-a · ln(1 + b·d), or -a · d^b, for the distance d."""


class KerplePosition(Position):
    """Two positive numbers a head; for a power, b lies between 0 and 2, where the kernel is sound."""

    options_type = KerpleOptions
    options: KerpleOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        # Logarithms, and for the exponent a logit: no step of training can leave the range that is allowed.
        self.weight = nn.Parameter(_spread(dims.heads, 2.0 if options.kernel == "log" else 1.0).log())
        b = _spread(dims.heads, 1.0)
        self.shape = nn.Parameter(b.log() if options.kernel == "log" else torch.logit(b))

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """[B or 1, H, Q, K]."""
        distance_B1QK = (k_at_BK[:, None, None, :] - q_at_BQ[:, None, :, None]).abs()
        # Half precision cannot count.
        distance_B1QK = distance_B1QK.to(torch.promote_types(self.weight.dtype, torch.float32))
        a_H11, raw_H11 = self.weight.exp()[:, None, None], self.shape[:, None, None]
        if self.options.kernel == "log":
            return -a_H11 * torch.log1p(raw_H11.exp() * distance_B1QK)
        return -a_H11 * distance_B1QK ** (2 * raw_H11.sigmoid())


def _spread(heads: int, largest: float) -> Tensor:
    """One random number a head, as the authors begin; never so near 0 that its logarithm runs away."""
    return torch.empty(heads).uniform_(0.01 * largest, 0.99 * largest)
