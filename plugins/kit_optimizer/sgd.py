"""Stochastic gradient descent (SGD), with momentum (Polyak 1964) and Nesterov momentum."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, model_validator

from kit import Optimizer, Options, ParameterGroup, torch_groups


class SgdOptions(Options):
    """Options of SGD."""

    use: Literal["sgd"] = "sgd"
    learning_rate: PositiveFloat = 0.1
    """The learning rate that the schedule multiplies."""
    momentum: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.9
    """The momentum factor."""
    nesterov: bool = False
    """Use Nesterov momentum."""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty: added to the gradient, times the weight."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> Self:
        if self.nesterov and self.momentum == 0:
            raise ValueError("nesterov looks ahead along the momentum, and momentum is 0: give it one, such as 0.9")
        return self


class SgdOptimizer(Optimizer):
    """SGD over all parameters."""

    options_type = SgdOptions
    options: SgdOptions
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Build torch's SGD; not fused, since DTensors do not support that."""
        return torch.optim.SGD(
            torch_groups(groups, self.options.weight_decay),
            lr=self.options.learning_rate,
            momentum=self.options.momentum,
            nesterov=self.options.nesterov,
        )
