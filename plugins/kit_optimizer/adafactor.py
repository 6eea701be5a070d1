"""Adafactor (Shazeer & Stern 2018): the mean squares of a matrix as a row times a column, which takes little memory."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import NegativeFloat, NonNegativeFloat, PositiveFloat

from kit import KitError, Optimizer, Options, ParameterGroup, is_sharded, torch_groups


class AdafactorOptions(Options):
    """Adam's adaptation at a fraction of its memory; steps are relative to the size of the weights."""

    use: Literal["adafactor"] = "adafactor"
    rate: PositiveFloat = 1e-2
    """The largest relative step; the schedule multiplies it, and after n steps it is at most 1/sqrt(n)."""
    decay_exponent: NegativeFloat = -0.8
    """At step n the running mean square keeps 1 - n**decay_exponent of itself."""
    smallest_scale: PositiveFloat = 1e-3
    """Weights smaller than this (root mean square) are stepped as if they were of this size."""
    clip: PositiveFloat = 1.0
    """An update whose root mean square is larger is scaled down to it."""
    weight_decay: NonNegativeFloat = 0.0
    """The share of a weight that is taken away at each step, times the rate."""


class AdafactorOptimizer(Optimizer):
    """Adafactor over all parameters."""

    options_type = AdafactorOptions
    options: AdafactorOptions

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """torch's Adafactor."""
        if is_sharded(groups):
            raise KitError(
                "the optimizer adafactor cannot step parameters that are spread over processes; "
                "use strategy: ddp, or another optimizer, such as adamw."
            )
        return torch.optim.Adafactor(
            torch_groups(groups, self.options.weight_decay),
            lr=self.options.rate,
            beta2_decay=self.options.decay_exponent,
            eps=(None, self.options.smallest_scale),
            d=self.options.clip,
        )
