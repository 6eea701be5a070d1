"""Optimizers that break one law each."""

from __future__ import annotations

from typing import Any, Literal

import torch

from kit import Optimizer, Options, ParameterGroup, torch_groups


class BrokenOptions(Options):
    use: Literal["broken"] = "broken"


class BrokenOptimizer(Optimizer):
    options_type = BrokenOptions
    breaks: tuple[str, ...] = ()

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return torch.optim.SGD(torch_groups(groups, 0.0), lr=0.05, momentum=0.9)


class LeavesOutMatrices(BrokenOptimizer):
    breaks = ("optimizer.param_groups",)

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return super().build([group for group in groups if not group.matrix])


class _Climbing(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = -parameter.grad
        return super().step(closure)


class Climbs(BrokenOptimizer):
    breaks = ("optimizer.loss_decreases",)

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return _Climbing(torch_groups(groups, 0.0), lr=0.05)


class _Secretive(torch.optim.SGD):
    """Slows down by a count that it does not save."""

    count = 0

    def step(self, closure: Any = None) -> Any:
        self.count += 1
        for group in self.param_groups:
            group["lr"] = 0.05 / self.count
        return super().step(closure)


class ForgetsItsCount(BrokenOptimizer):
    breaks = ("optimizer.state_dict",)

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return _Secretive(torch_groups(groups, 0.0), lr=0.05)


class _Normed(torch.optim.SGD):
    """Steps of one length for every matrix."""

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = parameter.grad / parameter.grad.norm()
        return super().step(closure)


class LooksAtMatrices(BrokenOptimizer):
    breaks = ("optimizer.elementwise",)
    elementwise = True

    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        return _Normed(torch_groups(groups, 0.0), lr=0.05)
