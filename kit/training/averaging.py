"""Averages of weights: a moving one over the steps (Polyak & Juditsky 1992), and the mean of the last checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from kit.runs.store import CheckpointStore
from kit.training.joining import own_share
from kit.training.placing import placed


class Average:
    """A moving average of a model's parameters; it can stand in for them while something is measured."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.values = {name: value.detach().clone() for name, value in model.named_parameters()}

    def follow(self) -> None:
        """Be where the parameters are: on their device, and in pieces where they are."""
        for name, parameter in self.model.named_parameters():
            value = own_share(self.model, name, self.values[name].to(parameter.device))
            self.values[name] = placed(value, parameter.detach())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """After update number `step`, counted from 1; early ones count more, when the average knows little yet."""
        kept = min(self.decay, (1 + step) / (10 + step))
        parameters = [value.detach() for _, value in self.model.named_parameters()]
        torch._foreach_lerp_(list(self.values.values()), parameters, 1 - kept)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the averaged weights inside."""
        own = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        self._copy(self.values)
        try:
            yield
        finally:
            self._copy(own)

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor]) -> None:
        """Go on from the values of a checkpoint, or from parameters."""
        for name, value in self.values.items():
            value.copy_(placed(values[name], value))

    @torch.no_grad()
    def _copy(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(values[name])


def mean_of_last(store: CheckpointStore, count: int, *, every: int, end: int) -> dict[str, Tensor]:
    """The mean of the weights in the newest regular checkpoints, in float64; whole numbers are taken from the newest.

    every, end: regular are those at multiples of the one, and that of the step that training ended with. Others, of a
    new best or an interruption, count only where no regular one is left, so that being interrupted changes nothing.
    """
    found = store.steps()
    regular = [step for step in found if step % every == 0 or step == end]
    steps = (regular or found)[-count:]
    mean: dict[str, Tensor] = {}
    newest: dict[str, Tensor] = {}
    for step in steps:
        newest = store.load(step).weights
        for name, value in newest.items():
            if value.is_floating_point():
                mean[name] = mean.get(name, torch.zeros(())) + value.double() / len(steps)
    return {name: mean[name].to(value.dtype) if name in mean else value for name, value in newest.items()}
