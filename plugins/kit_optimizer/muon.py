"""Muon (Jordan et al. 2024) for the matrices between layers, AdamW for all else, as one optimizer.

Muon makes the momentum of a matrix orthogonal before it steps, so that all its directions are learnt at the same pace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from kit import Optimizer, Options, ParameterGroup, can_fuse, torch_groups
from kit_optimizer.joined import JoinedOptimizer
from kit_optimizer.orthogonal import orthogonalized

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class MuonOptions(Options):
    """Muon for matrices; tables of tokens, heads, biases and norms are left to AdamW."""

    use: Literal["muon"] = "muon"
    rate: PositiveFloat = 1e-3
    """The learning rate that the schedule multiplies."""
    momentum: Share = 0.95
    """How much of the running mean of the gradient is kept at each step."""
    scale: Literal["adamw", "shape"] = "adamw"
    """How large a step is: as AdamW's would be, so that one rate serves both (Liu et al. 2025), or by shape alone."""
    weight_decay: NonNegativeFloat = 0.01
    """The share of a weight that is taken away at each step, times the rate."""
    rest_rate: PositiveFloat | None = None
    """The rate of AdamW for all else; left out, the same rate."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """The running means of AdamW for all else."""
    epsilon: PositiveFloat = 1e-8
    """Added to the root of AdamW's mean square."""
    iterations: PositiveInt = Field(default=5, le=20)
    """Steps of the Newton-Schulz iteration that makes a matrix orthogonal."""


class MuonOptimizer(Optimizer):
    """Muon and AdamW, by the kind of parameter."""

    options_type = MuonOptions
    options: MuonOptions

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Muon below and torch's AdamW, joined; one of them alone where a model has parameters for it only."""
        matrices = [group for group in groups if group.matrix]
        rest = [group for group in groups if not group.matrix]
        parts: list[torch.optim.Optimizer] = []
        if matrices:
            settings = {
                "lr": self.options.rate,
                "momentum": self.options.momentum,
                "scale": self.options.scale,
                "iterations": self.options.iterations,
            }
            parts.append(Muon(torch_groups(matrices, self.options.weight_decay), settings))
        if rest:
            parts.append(
                torch.optim.AdamW(
                    torch_groups(rest, self.options.weight_decay),
                    lr=self.options.rest_rate or self.options.rate,
                    betas=self.options.betas,
                    eps=self.options.epsilon,
                    fused=True if can_fuse(rest) else None,
                )
            )
        return JoinedOptimizer(parts)


class Muon(torch.optim.Optimizer):
    """Keeps one momentum a matrix, and looks ahead along it as Nesterov does."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every matrix that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, kept = group["lr"], group["momentum"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - kept)
                ahead = torch.lerp(parameter.grad, state["momentum"], kept)
                rows, columns = parameter.shape
                size = 0.2 * max(rows, columns) ** 0.5 if group["scale"] == "adamw" else max(1.0, rows / columns) ** 0.5
                parameter.mul_(1 - rate * group["weight_decay"])
                parameter.add_(orthogonalized(ahead, group["iterations"]), alpha=-rate * size)
        return loss
