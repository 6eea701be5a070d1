"""Adam (Kingma & Ba 2015) with the settings of Vaswani et al. 2017, and no weight decay."""

from __future__ import annotations

from typing import Annotated, Literal

import torch
from pydantic import Field, PositiveFloat

from kit import Optimizer, Options, ParameterGroup, can_fuse, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class AdamOptions(Options):
    """Options of Adam, with the defaults of the first Transformer; for weight decay there is adamw."""

    use: Literal["adam"] = "adam"
    learning_rate: PositiveFloat = 1e-3
    """The learning rate that the schedule multiplies; the paper has 1.0, and the schedule inverse_sqrt with a width."""
    betas: tuple[Share, Share] = (0.9, 0.98)
    """The decay rates of the running means of the gradient and of its square."""
    epsilon: PositiveFloat = 1e-9
    """Added to the root of the mean square in the denominator."""
    fused: bool = True
    """Use torch's fused kernel where it supports the parameters."""


class AdamOptimizer(Optimizer):
    """Adam over all parameters."""

    options_type = AdamOptions
    options: AdamOptions
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Build torch's Adam, fused where it can be."""
        return torch.optim.Adam(
            torch_groups(groups, 0.0),
            lr=self.options.learning_rate,
            betas=self.options.betas,
            eps=self.options.epsilon,
            fused=True if self.options.fused and can_fuse(groups) else None,
        )
