"""AdamW (Loshchilov & Hutter 2019): Adam whose weight decay acts on the weights and not through the gradient."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from kit import Optimizer, Options, ParameterGroup, can_fuse, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class AdamWOptions(Options):
    """Adam with weight decay as it is meant."""

    use: Literal["adamw"] = "adamw"
    rate: PositiveFloat = 1e-3
    """The learning rate that the schedule multiplies."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """How much of the running means of the gradient and of its square is kept at each step."""
    epsilon: PositiveFloat = 1e-8
    """Added to the root of the mean square."""
    weight_decay: NonNegativeFloat = 0.01
    """The share of a weight that is taken away at each step, times the rate."""
    fused: bool = True
    """One fused call for all parameters, where torch can."""


class AdamWOptimizer(Optimizer):
    """AdamW over all parameters."""

    options_type = AdamWOptions
    options: AdamWOptions
    elementwise = True
    default = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """torch's AdamW, fused where it can be."""
        return torch.optim.AdamW(
            torch_groups(groups, self.options.weight_decay),
            lr=self.options.rate,
            betas=self.options.betas,
            eps=self.options.epsilon,
            fused=True if self.options.fused and can_fuse(groups) else None,
        )
