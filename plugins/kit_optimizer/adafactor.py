"""Adafactor (Shazeer & Stern 2018): factored second moments, a row and a column per matrix."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import NegativeFloat, NonNegativeFloat, PositiveFloat

from kit import KitError, Optimizer, Options, ParameterGroup, is_sharded, torch_groups


class AdafactorOptions(Options):
    """Options of Adafactor: adaptive steps relative to the scale of the weights, at a fraction of Adam's memory."""

    use: Literal["adafactor"] = "adafactor"
    learning_rate: PositiveFloat = 1e-2
    """The maximum relative step size; the schedule multiplies it, and at step n it is at most 1/sqrt(n)."""
    decay_exponent: NegativeFloat = -0.8
    """The decay rate of the second moment at step n is 1 - n**decay_exponent."""
    smallest_scale: PositiveFloat = 1e-3
    """The minimum scale (root mean square) of weights that a step is relative to."""
    clip: PositiveFloat = 1.0
    """The maximum root mean square of an update."""
    weight_decay: NonNegativeFloat = 0.0
    """Decoupled weight decay: the fraction of a weight that is subtracted at each step, times the learning rate."""


class AdafactorOptimizer(Optimizer):
    """Adafactor over all parameters."""

    options_type = AdafactorOptions
    options: AdafactorOptions

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Build torch's Adafactor."""
        if is_sharded(groups):
            raise KitError(
                "the optimizer adafactor cannot step parameters that are spread over processes; "
                "use strategy: ddp, or another optimizer, such as adamw."
            )
        return torch.optim.Adafactor(
            torch_groups(groups, self.options.weight_decay),
            lr=self.options.learning_rate,
            beta2_decay=self.options.decay_exponent,
            eps=(None, self.options.smallest_scale),
            d=self.options.clip,
        )
