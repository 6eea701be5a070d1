"""State dicts of sharded models: gathered into full tensors for a checkpoint, and sharded when one is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.utils import get_total_norm

from kit.distributed.tensor_parallel import ParameterShards, ShardPlan, shard_plan

_STEP = "step"
"""The key of the number of updates in the state that torch's optimizers keep for every parameter."""


def distribute_like(value: Tensor, like: Tensor) -> Tensor:
    """Shard a full tensor as `like` is, a DTensor; returned as it is where `like` is not one."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if isinstance(like, DTensor) and value.dim() == 0 and like.shape == (1,):
        value = value.reshape(1)
    if not isinstance(like, DTensor) or value.shape != like.shape:
        return value
    return distribute_tensor(value.to(like.device), like.device_mesh, like.placements)


def full_tensor(tensor: Tensor) -> Tensor:
    """The full tensor of a DTensor, on every rank. Collective: every rank must call it, in the same order."""
    gathered: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return gathered.detach()


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Load full tensors into a model, which may be sharded by FSDP."""
    own = model.state_dict()
    model.load_state_dict(
        {name: distribute_like(value, own[name]) if name in own else value for name, value in weights.items()}
    )


def load_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load the state dict of an optimizer, whose parameters are numbered in the order of its groups."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    sharded = {
        number: {
            name: distribute_like(value, parameters[number]) if isinstance(value, Tensor) and name != _STEP else value
            for name, value in entry.items()
        }
        for number, entry in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": sharded})


def gather_state_dict(model: nn.Module, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by parameter name, gathered over the tensor-parallel group. Collective."""
    plan = shard_plan(model)
    if plan is None:
        return dict(values)
    return {
        name: _gather(value, plan.shards[name], plan) if name in plan.shards else value
        for name, value in values.items()
    }


def gather_optim_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """The state dict of an optimizer, gathered over the tensor-parallel group. Collective."""
    return _map_sharded(model, optimizer, state, _gather)


def shard_optim_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """This rank's tensor-parallel shard of the full state dict of an optimizer."""
    return _map_sharded(model, optimizer, state, lambda value, shards, plan: shards.of_rank(value, plan.rank))


def local_shard(model: nn.Module, name: str, value: Tensor) -> Tensor:
    """This rank's tensor-parallel shard of a full parameter."""
    plan = shard_plan(model)
    return value if plan is None or name not in plan.shards else plan.shards[name].of_rank(value, plan.rank)


def is_tensor_parallel_main(model: nn.Module) -> bool:
    """Whether this rank is the one of its tensor-parallel group that writes what the group has in common."""
    plan = shard_plan(model)
    return plan is None or plan.rank == 0


def gradient_norm(model: nn.Module, gradients: Mapping[str, Tensor]) -> Tensor:
    """The gradient norm of the full model, in which replicated parameters count once.

    gradients: those of this rank, by parameter name. Collective over the tensor-parallel group.
    """
    plan = shard_plan(model)
    if plan is None or not plan.shards:
        return _norm(list(gradients.values()))
    replicated = _norm([gradient for name, gradient in gradients.items() if name not in plan.shards])
    square = _norm([gradient for name, gradient in gradients.items() if name in plan.shards]).square()
    square = square.to(next(model.parameters()).device)
    distributed.all_reduce(square, group=plan.group)
    return (replicated.square() + square).sqrt()


def _norm(gradients: list[Tensor]) -> Tensor:
    norm = get_total_norm(gradients)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def _map_sharded(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    change: Callable[[Tensor, ParameterShards, ShardPlan], Tensor],
) -> dict[str, Any]:
    """Change the state of sharded parameters; single numbers in it, such as the step, stay."""
    plan = shard_plan(model)
    if plan is None:
        return state
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    changed = {}
    for number, entry in state["state"].items():
        shards = plan.shards.get(names[id(parameters[number])])
        changed[number] = {
            name: change(value, shards, plan)
            if shards is not None and isinstance(value, Tensor) and value.dim()
            else value
            for name, value in entry.items()
        }
    return {**state, "state": changed}


def _gather(value: Tensor, shards: ParameterShards, plan: ShardPlan) -> Tensor:
    """The full tensor of which each rank of the group has a shard; a DTensor where the shards are DTensors."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    own = full_tensor(value).contiguous()
    gathered = [torch.empty_like(own) for _ in range(plan.world_size)]
    distributed.all_gather(gathered, own, group=plan.group)
    indices = torch.tensor([index for each in shards.indices for index in each], device=own.device)
    joined = torch.cat(gathered, shards.axis)
    full = torch.empty_like(joined).index_copy_(shards.axis, indices, joined)
    if isinstance(value, DTensor):
        return distribute_tensor(full, value.device_mesh, value.placements)
    return full
