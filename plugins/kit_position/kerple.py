"""KERPLE, kernelized relative position biases with learned decay (Chi et al. 2022).

Shapes: B batch, H heads, Q queries, K keys.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Position


class KerpleOptions(Options):
    """KERPLE: each head learns a kernel of the distance that is added to the scores."""

    use: Literal["kerple"] = "kerple"
    kernel: Literal["log", "power"] = "log"
    """`log`: -a · ln(1 + b·d). `power`: -a · d^b. For the distance d."""


class KerplePosition(Position):
    """Two positive parameters per head; for `power`, 0 < b < 2, where the kernel is conditionally positive definite."""

    options_type = KerpleOptions
    options: KerpleOptions
    relative = True

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        # Stored as logarithms, the exponent as a logit, so that no update leaves the valid range.
        self.weight = nn.Parameter(_uniform(dims.heads, 2.0 if options.kernel == "log" else 1.0).log())
        b = _uniform(dims.heads, 1.0)
        self.shape = nn.Parameter(b.log() if options.kernel == "log" else torch.logit(b))

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """Bias of the scores: [B or 1, H, Q, K]."""
        distance_B1QK = (k_at_BK[:, None, None, :] - q_at_BQ[:, None, :, None]).abs()
        # Half precision cannot represent positions.
        distance_B1QK = distance_B1QK.to(torch.promote_types(self.weight.dtype, torch.float32))
        a_H11, raw_H11 = self.weight.exp()[:, None, None], self.shape[:, None, None]
        if self.options.kernel == "log":
            return -a_H11 * torch.log1p(raw_H11.exp() * distance_B1QK)
        return -a_H11 * distance_B1QK ** (2 * raw_H11.sigmoid())


def _uniform(heads: int, largest: float) -> Tensor:
    """One uniform random number per head, as the authors initialise; bounded away from 0, because of the logarithm."""
    return torch.empty(heads).uniform_(0.01 * largest, 0.99 * largest)
