"""Lion (Chen et al. 2023): updates by the sign of the momentum, of equal size in every coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from kit import Optimizer, Options, ParameterGroup, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class LionOptions(Options):
    """Options of Lion; it needs 3 to 10 times less learning rate than AdamW, and as many times more weight decay."""

    use: Literal["lion"] = "lion"
    learning_rate: PositiveFloat = 1e-4
    """The size of a step in every coordinate; the schedule multiplies it."""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """The weight of the momentum in the update, and its decay rate."""
    weight_decay: NonNegativeFloat = 0.1
    """Decoupled weight decay: the fraction of a weight that is subtracted at each step, times the learning rate."""


class LionOptimizer(Optimizer):
    """Lion over all parameters."""

    options_type = LionOptions
    options: LionOptions
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Build Lion."""
        return Lion(
            torch_groups(groups, self.options.weight_decay),
            {"lr": self.options.learning_rate, "betas": self.options.betas},
        )


class Lion(torch.optim.Optimizer):
    """Lion as a torch optimizer, with one momentum per parameter."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            learning_rate, (update_beta, decay_beta) = group["lr"], group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                direction = torch.lerp(parameter.grad, state["momentum"], update_beta).sign_()
                parameter.mul_(1 - learning_rate * group["weight_decay"])
                parameter.add_(direction, alpha=-learning_rate)
                state["momentum"].lerp_(parameter.grad, 1 - decay_beta)
        return loss
