"""Weight averaging: an exponential moving average (Polyak & Juditsky 1992), and the mean of the last checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from kit.checkpoints.contents import Checkpoint
from kit.checkpoints.store import CheckpointStore
from kit.distributed.state import distribute_like, load_weights, local_shard
from kit.model.families import Model


class EMA:
    """Exponential moving average of a model's parameters, which can be swapped in for an evaluation."""

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model = model
        self.decay = decay
        self.values = {name: value.detach().clone() for name, value in model.named_parameters()}

    def to_device(self) -> None:
        """Move the average to the parameters' device, and shard it where they are sharded."""
        for name, parameter in self.model.named_parameters():
            value = local_shard(self.model, name, self.values[name].to(parameter.device))
            self.values[name] = distribute_like(value, parameter.detach())

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Update the average after step `step`, counted from 1; the decay is smaller in early steps."""
        decay = min(self.decay, (1 + step) / (10 + step))
        parameters = [value.detach() for _, value in self.model.named_parameters()]
        torch._foreach_lerp_(list(self.values.values()), parameters, 1 - decay)

    @contextmanager
    def swapped_in(self) -> Iterator[None]:
        """Swap the averaged weights in, and the own weights back on exit."""
        own = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        self._copy(self.values)
        try:
            yield
        finally:
            self._copy(own)

    @torch.no_grad()
    def load(self, values: Mapping[str, Tensor]) -> None:
        """Load the values of a checkpoint, or of parameters."""
        for name, value in self.values.items():
            value.copy_(distribute_like(values[name], value))

    @torch.no_grad()
    def _copy(self, values: Mapping[str, Tensor]) -> None:
        for name, parameter in self.model.named_parameters():
            parameter.copy_(values[name])


def average_checkpoints(store: CheckpointStore, count: int, *, every: int, end: int) -> dict[str, Tensor]:
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


def averaged_weights(model: Model, checkpoint: Checkpoint) -> dict[str, Tensor]:
    """The moving average of a checkpoint where it has one, else its weights; through `model`, which is changed."""
    averaged = checkpoint.training["average"]
    if averaged is None:
        return checkpoint.weights
    # Through the model: a parameter that two modules share has two names in the state dict and one in the average.
    load_weights(model, checkpoint.weights)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(averaged[name])
    return {name: value.clone() for name, value in model.state_dict().items()}
