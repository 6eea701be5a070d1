"""Stochastic gradient descent, with momentum (Polyak 1964) and Nesterov's look ahead."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from kit import Optimizer, Options, ParameterGroup, torch_groups


class SgdOptions(Options):
    """The plain gradient, with or without momentum."""

    use: Literal["sgd"] = "sgd"
    rate: PositiveFloat = 0.1
    """The learning rate that the schedule multiplies."""
    momentum: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.9
    """How much of the step before is kept."""
    nesterov: bool = False
    """Whether the gradient is taken as if the momentum's step had been made already."""
    weight_decay: NonNegativeFloat = 0.0
    """Added to the gradient, times the weight."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov looks ahead along the momentum, and momentum is 0: give it one, such as 0.9")
        return self


class SgdOptimizer(Optimizer):
    """Gradient descent over all parameters."""

    options_type = SgdOptions
    options: SgdOptions
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """torch's SGD; not fused, which FSDP's tensors do not know for it."""
        return torch.optim.SGD(
            torch_groups(groups, self.options.weight_decay),
            lr=self.options.rate,
            momentum=self.options.momentum,
            nesterov=self.options.nesterov,
        )
