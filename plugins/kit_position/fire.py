"""FIRE, a learned bias of the distance relative to the query's position: Functional Interpolation (Li et al. 2023).

Shapes: B batch, H heads, Q queries, K keys, N hidden units.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from kit import BuildContext, Dims, Options, Position


class FireOptions(Options):
    """FIRE: bias f(psi(distance) / psi(position)) by an MLP, with psi(x) = ln(1 + c·x), bounded at any length."""

    use: Literal["fire"] = "fire"
    hidden: PositiveInt = 32
    """Hidden units of the MLP."""
    steepness: PositiveFloat = 0.1
    """Initial c: larger values resolve near distances more finely."""
    threshold: PositiveFloat = 512.0
    """Initial threshold; positions below it count as it, so that short sequences see absolute distances."""


class FirePosition(Position):
    """Normalises distances by the later position of query and key, which is the query's in causal stacks."""

    options_type = FireOptions
    options: FireOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.steepness = nn.Parameter(torch.tensor(options.steepness))
        self.threshold = nn.Parameter(torch.tensor(1.0))
        self.network = nn.Sequential(nn.Linear(1, options.hidden), nn.ReLU(), nn.Linear(options.hidden, dims.heads))

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """Bias of the scores: [B or 1, H, Q, K]."""
        dtype = torch.promote_types(self.steepness.dtype, torch.float32)  # half precision cannot represent positions
        q_BQ1, k_B1K = q_at_BQ[:, :, None].to(dtype), k_at_BK[:, None, :].to(dtype)
        # Relative to its initial value, so that updates have the scale of other parameters.
        threshold = self.threshold.abs() * self.options.threshold
        near_BQK = self._squeeze((k_B1K - q_BQ1).abs())
        far_BQK = self._squeeze(torch.maximum(torch.maximum(q_BQ1, k_B1K), threshold))
        bias_BQKH: Tensor = self.network((near_BQK / far_BQK).to(self.steepness.dtype).unsqueeze(-1))
        return bias_BQKH.permute(0, 3, 1, 2)

    def _squeeze(self, x: Tensor) -> Tensor:
        return torch.log1p(self.steepness.abs() * x)
