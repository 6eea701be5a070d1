"""AdamW (Loshchilov & Hutter 2019): Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from kit import Optimizer, Options, ParameterGroup, can_fuse, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class AdamWOptions(Options):
    """Options of AdamW."""

    use: Literal["adamw"] = "adamw"
    learning_rate: PositiveFloat = 1e-3
    """The learning rate that the schedule multiplies."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """The decay rates of the running means of the gradient and of its square."""
    epsilon: PositiveFloat = 1e-8
    """Added to the root of the mean square in the denominator."""
    weight_decay: NonNegativeFloat = 0.01
    """Decoupled weight decay: the fraction of a weight that is subtracted at each step, times the learning rate."""
    fused: bool = True
    """Use torch's fused kernel where it supports the parameters."""


class AdamWOptimizer(Optimizer):
    """AdamW over all parameters."""

    options_type = AdamWOptions
    options: AdamWOptions
    elementwise = True
    default = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Build torch's AdamW, fused where it can be."""
        return torch.optim.AdamW(
            torch_groups(groups, self.options.weight_decay),
            lr=self.options.learning_rate,
            betas=self.options.betas,
            eps=self.options.epsilon,
            fused=True if self.options.fused and can_fuse(groups) else None,
        )
