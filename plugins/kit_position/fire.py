"""Distance as a share of the text so far, through a small network: Functional Interpolation (FIRE, Li et al. 2023).

Shapes: B rows, H heads, Q queries, K keys, N hidden numbers.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor, nn

from kit import Dims, Options, Position, Site


class FireOptions(Options):
    """A learned bias f(psi(distance) / psi(position)), psi(x) = ln(1 + c·x): in range however long a text is."""

    use: Literal["fire"] = "fire"
    hidden: PositiveInt = 32
    """Width of the network's hidden layer."""
    steepness: PositiveFloat = 0.1
    """What c begins as: the larger, the finer near distances are told apart."""
    threshold: PositiveFloat = 512.0
    """Positions below this count as this one, so that short texts see absolute distances; it is learned from here."""


class FirePosition(Position):
    """A distance is measured against the later of query and key: the query, where later keys are hidden."""

    options_type = FireOptions
    options: FireOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.steepness = nn.Parameter(torch.tensor(options.steepness))
        self.threshold = nn.Parameter(torch.tensor(1.0))
        self.network = nn.Sequential(nn.Linear(1, options.hidden), nn.ReLU(), nn.Linear(options.hidden, dims.heads))

    def bias(self, q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor:
        """[B or 1, H, Q, K]."""
        dtype = torch.promote_types(self.steepness.dtype, torch.float32)  # half precision cannot count
        q_BQ1, k_B1K = q_at_BQ[:, :, None].to(dtype), k_at_BK[:, None, :].to(dtype)
        # As a multiple of where it begins, so that its steps are of the size of every other parameter's.
        threshold = self.threshold.abs() * self.options.threshold
        near_BQK = self._squeeze((k_B1K - q_BQ1).abs())
        far_BQK = self._squeeze(torch.maximum(torch.maximum(q_BQ1, k_B1K), threshold))
        bias_BQKH: Tensor = self.network((near_BQK / far_BQK).to(self.steepness.dtype).unsqueeze(-1))
        return bias_BQKH.permute(0, 3, 1, 2)

    def _squeeze(self, x: Tensor) -> Tensor:
        return torch.log1p(self.steepness.abs() * x)
