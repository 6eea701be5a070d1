"""Gates that learn to close: L0 regularization (Louizos et al. 2018) of heads (Voita et al. 2019, section 6).

Begin from a trained model; when gates are open or shut, `kit prune --by gates` takes the shut heads out.
Shapes: H heads, B texts, Q queries, F width of a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn

from kit import Dims, Regularizer, RegularizerOptions, Site

LOWEST, HIGHEST = -0.1, 1.1
"""What the concrete distribution is stretched to before it is cut to 0 and 1: both ends get a chance of their own."""
EDGE = 1e-6


class L0Options(RegularizerOptions):
    """Options of `l0`. The term is strength · the expected number of open gates, summed over all heads (the paper)."""

    use: Literal["l0"] = "l0"
    temperature: PositiveFloat = 0.33
    """How sharply gates decide in training; smaller is sharper."""
    open: float = 2.0
    """What the logarithm of a gate's odds begins as: 2 is open."""


class L0Regularizer(Regularizer):
    """One gate a head: random in training, and fixed at its middle afterwards."""

    options_type = L0Options
    options: L0Options

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.log_odds = nn.ParameterDict()

    def attach(self, heads: Mapping[str, int]) -> None:
        """A gate for each head."""
        super().attach(heads)
        for name, count in heads.items():
            self.log_odds[_key(name)] = nn.Parameter(torch.full((count,), self.options.open))

    @property
    def active(self) -> bool:
        """Always: gates are part of what the model computes."""
        return True

    def begin(self, stack: str) -> None:
        """Add how many gates are expected to be open in the stack that runs now."""
        shift = self.options.temperature * math.log(-LOWEST / HIGHEST)
        for name in self.shaped:
            if name.startswith(f"{stack}."):
                chance_H = torch.sigmoid(self.log_odds[_key(name)] - shift)
                self.add_loss("l0", self.options.strength * chance_H.sum())

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Through the gates."""
        return out_BHQF * self._gate(site.name).to(out_BHQF.dtype)[:, None, None]

    def gates(self) -> Mapping[str, Tensor]:
        """As they are without chance."""
        return {name: _stretched(torch.sigmoid(self.log_odds[_key(name)].detach())) for name in self.shaped}

    def with_heads(self, chosen: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """The gates of heads that are left."""
        found = {}
        for name in self.shaped:
            log_odds = self.log_odds[_key(name)].detach()
            left = list(chosen.get(name, range(len(log_odds))))
            if left:
                found[f"log_odds.{_key(name)}"] = log_odds[left].clone()
        return found

    def _gate(self, name: str) -> Tensor:
        log_odds_H = self.log_odds[_key(name)]
        if not self.training:
            return _stretched(torch.sigmoid(log_odds_H))
        chance_H = torch.rand_like(log_odds_H).clamp(EDGE, 1 - EDGE)
        return _stretched(torch.sigmoid((torch.logit(chance_H) + log_odds_H) / self.options.temperature))


def _stretched(gate_H: Tensor) -> Tensor:
    return (gate_H * (HIGHEST - LOWEST) + LOWEST).clamp(0, 1)


def _key(name: str) -> str:
    return name.replace(".", "_")
