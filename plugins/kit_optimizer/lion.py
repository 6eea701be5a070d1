"""Lion (Chen et al. 2023): steps of one size in every coordinate, in the direction of a momentum's sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat

from kit import Optimizer, Options, ParameterGroup, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class LionOptions(Options):
    """Needs a rate three to ten times smaller than AdamW's, and as many times the weight decay."""

    use: Literal["lion"] = "lion"
    rate: PositiveFloat = 1e-4
    """The size of a step in every coordinate; the schedule multiplies it."""
    betas: tuple[Share, Share] = (0.9, 0.99)
    """How much of the momentum counts in the step, and how much of it is kept."""
    weight_decay: NonNegativeFloat = 0.1
    """The share of a weight that is taken away at each step, times the rate."""


class LionOptimizer(Optimizer):
    """Lion over all parameters."""

    options_type = LionOptions
    options: LionOptions
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """The torch optimizer below."""
        return Lion(
            torch_groups(groups, self.options.weight_decay), {"lr": self.options.rate, "betas": self.options.betas}
        )


class Lion(torch.optim.Optimizer):
    """Keeps one momentum a parameter."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, (step_share, kept) = group["lr"], group["betas"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                direction = torch.lerp(parameter.grad, state["momentum"], step_share).sign_()
                parameter.mul_(1 - rate * group["weight_decay"])
                parameter.add_(direction, alpha=-rate)
                state["momentum"].lerp_(parameter.grad, 1 - kept)
        return loss
