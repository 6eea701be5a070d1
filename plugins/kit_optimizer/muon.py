"""Muon (Jordan et al. 2024) for the hidden weight matrices and AdamW for all other parameters, as one optimizer.

Muon orthogonalizes the momentum of a matrix before the update, so that all singular directions are learnt at one pace.
Shapes: M rows, N columns, K the smaller of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor

from kit import Optimizer, Options, ParameterGroup, can_fuse, torch_groups

Share = Annotated[float, Field(ge=0.0, lt=1.0)]


class MuonOptions(Options):
    """Options of Muon for matrices, and of AdamW for embeddings, output layers, biases and norms."""

    use: Literal["muon"] = "muon"
    learning_rate: PositiveFloat = 1e-3
    """The learning rate that the schedule multiplies."""
    momentum: Share = 0.95
    """The decay rate of the running mean of the gradient."""
    scale: Literal["adamw", "shape"] = "adamw"
    """The scale of an update: that of AdamW, so that one rate serves both (Liu et al. 2025), or by shape alone."""
    weight_decay: NonNegativeFloat = 0.01
    """Decoupled weight decay: the fraction of a weight that is subtracted at each step, times the learning rate."""
    rest_rate: PositiveFloat | None = None
    """The learning rate of AdamW for the other parameters; left out, the same rate."""
    betas: tuple[Share, Share] = (0.9, 0.999)
    """The decay rates of AdamW's running means."""
    epsilon: PositiveFloat = 1e-8
    """Added to the root of AdamW's mean square in the denominator."""
    iterations: PositiveInt = Field(default=5, le=20)
    """Newton-Schulz iterations of the orthogonalization."""


class MuonOptimizer(Optimizer):
    """Muon and AdamW, by the kind of parameter."""

    options_type = MuonOptions
    options: MuonOptions

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """Build Muon and torch's AdamW as one optimizer; one of them alone where a model has parameters for it only."""
        matrices = [group for group in groups if group.matrix]
        rest = [group for group in groups if not group.matrix]
        parts: list[torch.optim.Optimizer] = []
        if matrices:
            settings = {
                "lr": self.options.learning_rate,
                "momentum": self.options.momentum,
                "scale": self.options.scale,
                "iterations": self.options.iterations,
            }
            parts.append(Muon(torch_groups(matrices, self.options.weight_decay), settings))
        if rest:
            parts.append(
                torch.optim.AdamW(
                    torch_groups(rest, self.options.weight_decay),
                    lr=self.options.rest_rate or self.options.learning_rate,
                    betas=self.options.betas,
                    eps=self.options.epsilon,
                    fused=True if can_fuse(rest) else None,
                )
            )
        return CombinedOptimizer(parts)


class Muon(torch.optim.Optimizer):
    """Muon as a torch optimizer, with one Nesterov momentum per matrix."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update of every matrix that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            learning_rate, momentum = group["lr"], group["momentum"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["momentum"] = torch.zeros_like(parameter)
                state["momentum"].lerp_(parameter.grad, 1 - momentum)
                ahead = torch.lerp(parameter.grad, state["momentum"], momentum)
                rows, columns = parameter.shape
                size = 0.2 * max(rows, columns) ** 0.5 if group["scale"] == "adamw" else max(1.0, rows / columns) ** 0.5
                parameter.mul_(1 - learning_rate * group["weight_decay"])
                parameter.add_(orthogonalize(ahead, group["iterations"]), alpha=-learning_rate * size)
        return loss


COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""The authors' coefficients, which raise small singular values fastest; all end between about 0.7 and 1.2."""


def orthogonalize(matrix: Tensor, iterations: int) -> Tensor:
    """The nearest orthogonal matrix, approximately: all singular values near 1. A DTensor stays sharded."""
    from torch.distributed.tensor import DTensor, Replicate

    if not isinstance(matrix, DTensor):
        return _iterate(matrix, iterations)
    # Every rank iterates on the full matrix: one all-gather, not two in each iteration, and the same numbers as alone.
    mesh, placements = matrix.device_mesh, matrix.placements
    full = _iterate(matrix.full_tensor(), iterations)
    return DTensor.from_local(full, mesh, [Replicate()] * mesh.ndim).redistribute(mesh, placements)


def _iterate(matrix_MN: Tensor, iterations: int) -> Tensor:
    # The authors use bfloat16, which is fast on a GPU; on a CPU it is slower than float32, and less precise.
    precise = torch.promote_types(matrix_MN.dtype, torch.float32)
    x_KN = matrix_MN.to(torch.bfloat16 if matrix_MN.is_cuda else precise)
    tall = x_KN.size(0) > x_KN.size(1)
    if tall:
        x_KN = x_KN.T
    x_KN = x_KN / x_KN.norm().clamp(min=1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(iterations):
        gram_KK = x_KN @ x_KN.T
        polynomial_KK = torch.addmm(gram_KK, gram_KK, gram_KK, beta=b, alpha=c)
        x_KN = torch.addmm(x_KN, polynomial_KK, x_KN, beta=a)
    return (x_KN.T if tall else x_KN).to(matrix_MN.dtype)


class CombinedOptimizer(torch.optim.Optimizer):
    """Several torch optimizers as one, with one list of groups and one state for schedules and checkpoints."""

    def __init__(self, parts: list[torch.optim.Optimizer]) -> None:
        self.parts = parts
        self.sizes = [len(part.param_groups) for part in parts]
        super().__init__([group for part in parts for group in part.param_groups], {})

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step each optimizer."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        start = 0
        for part, size in zip(self.parts, self.sizes, strict=True):
            # Assigned at every step: loading a checkpoint replaces both the list of groups and the state.
            part.param_groups = self.param_groups[start : start + size]
            part.state = self.state
            part.step()
            start += size
        return loss
