"""L0 regularization (Louizos et al. 2018) of attention heads by hard concrete gates (Voita et al. 2019, section 6).

Begin from a trained model; once gates are open or closed, `kit prune --by gates` removes the closed heads.
Shapes: H heads, B sequences, Q queries, F width of a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import BuildContext, Dims, Regularizer, RegularizerOptions

LOWEST, HIGHEST = -0.1, 1.1
"""The limits that the concrete distribution is stretched to before it is clamped to [0, 1]."""
EDGE = 1e-6


class L0Options(RegularizerOptions):
    """Options of `l0`. The auxiliary loss is strength · the expected number of open gates of all heads."""

    use: Literal["l0"] = "l0"
    temperature: PositiveFloat = 0.33
    """The temperature of the concrete distribution; smaller is closer to 0 and 1."""
    open: float = 2.0
    """The initial log odds of a gate: 2 is open."""


class L0Regularizer(Regularizer):
    """One hard concrete gate per head: sampled in training, deterministic in evaluation."""

    options_type = L0Options
    options: L0Options

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.log_odds = nn.ParameterDict()

    def attach(self, heads: Mapping[str, int]) -> None:
        """Create a gate for each head."""
        super().attach(heads)
        for name, count in heads.items():
            self.log_odds[_key(name)] = nn.Parameter(torch.full((count,), self.options.open))

    @property
    def active(self) -> bool:
        """Always: the gates are part of the forward pass."""
        return True

    def begin(self, stack: str) -> None:
        """Add the expected number of open gates of a stack."""
        shift = self.options.temperature * math.log(-LOWEST / HIGHEST)
        for name in self.head_counts:
            if name.startswith(f"{stack}."):
                probability_H = torch.sigmoid(self.log_odds[_key(name)] - shift)
                self.add_loss("l0", self.options.strength * probability_H.sum())

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Multiply each head by its gate."""
        return out_BHQF * self._gate(build_context.name).to(out_BHQF.dtype)[:, None, None]

    def gates(self) -> Mapping[str, Tensor]:
        """The deterministic gates [H] of each attention module."""
        return {name: _stretched(torch.sigmoid(self.log_odds[_key(name)].detach())) for name in self.head_counts}

    def select_heads(self, chosen: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """The log odds of the heads that are kept."""
        found = {}
        for name in self.head_counts:
            log_odds = self.log_odds[_key(name)].detach()
            left = list(chosen.get(name, range(len(log_odds))))
            if left:
                found[f"log_odds.{_key(name)}"] = log_odds[left].clone()
        return found

    def _gate(self, name: str) -> Tensor:
        log_odds_H = self.log_odds[_key(name)]
        if not self.training:
            return _stretched(torch.sigmoid(log_odds_H))
        uniform_H = torch.rand_like(log_odds_H).clamp(EDGE, 1 - EDGE)
        return _stretched(torch.sigmoid((torch.logit(uniform_H) + log_odds_H) / self.options.temperature))


def _stretched(gate_H: Tensor) -> Tensor:
    return (gate_H * (HIGHEST - LOWEST) + LOWEST).clamp(0, 1)


def _key(name: str) -> str:
    return name.replace(".", "_")
