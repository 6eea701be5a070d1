"""Whole tensors of a checkpoint, put where the running model has them: in pieces where it is sharded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

_COUNT = "step"
"""What torch's optimizers call the number of updates that they keep for every parameter."""


def placed(whole: Tensor, like: Tensor) -> Tensor:
    """A whole tensor as the piece of it that this process holds of `like`; as it is where `like` is not sharded."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(like, DTensor) and whole.dim() == 0 and like.shape == (1,):
        whole = whole.reshape(1)
    if not isinstance(like, DTensor) or whole.shape != like.shape:
        return whole
    return distribute_tensor(whole.to(like.device), like.device_mesh, like.placements)


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, on every process; all of them have to ask."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered.detach()


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Put whole weights into a model."""
    own = model.state_dict()
    model.load_state_dict({name: placed(value, own[name]) if name in own else value for name, value in weights.items()})


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Put the state of an optimizer back; its parameters are numbered in the order of its groups."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    held = {
        number: {
            name: placed(value, parameters[number]) if isinstance(value, Tensor) and name != _COUNT else value
            for name, value in entry.items()
        }
        for number, entry in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": held})
