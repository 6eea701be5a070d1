"""Adam (Kingma & Ba 2015) with the settings of Vaswani et al. 2017, and no weight decay."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat

from kit import Optimizer, Options, ParameterGroup, can_fuse, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class AdamOptions(Options):
    """Adam as the Transformer was first trained with it; for weight decay there is adamw."""

    use: Literal["adam"] = "adam"
    rate: PositiveFloat = 1e-3
    """The learning rate that the schedule multiplies; the paper has 1.0, and the schedule inverse_sqrt with a width."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """How much of the running means of the gradient and of its square is kept at each step."""
    epsilon: PositiveFloat = 1e-9
    """Added to the root of the mean square."""
    fused: bool = True
    """One fused call for all parameters, where torch can."""


class AdamOptimizer(Optimizer):
    """Adam over all parameters."""

    options_type = AdamOptions
    options: AdamOptions
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """torch's Adam, fused where it can be."""
        return torch.optim.Adam(
            torch_groups(groups, 0.0),
            lr=self.options.rate,
            betas=self.options.betas,
            eps=self.options.epsilon,
            fused=True if self.options.fused and can_fuse(groups) else None,
        )
