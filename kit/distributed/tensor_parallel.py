"""Tensor parallelism: parts are sharded by columns and rows over a process group (Megatron-LM, Shoeybi et al. 2019).

The input of a sharded part goes through the operator f of section 3 (identity forward, all-reduce of the gradient), and
its output through g (all-reduce forward, identity backward).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.autograd import Function
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from kit.contracts.attention import Attention
from kit.contracts.part import Part
from kit.contracts.position import Position
from kit.contracts.sublayer import Feedforward
from kit.contracts.tensor_parallel import TensorParallelShard, index_parameter
from kit.errors import KitError
from kit.kernels.linear import linear, use_fast_linear
from kit.kernels.rng_state import fork_rng_per_tp_rank, preserve_rng_state
from kit.model.families import Model

_PLAN = "_kit_shard_plan"
"""The attribute of a model that holds its shard plan."""


@dataclass(frozen=True)
class ParameterShards:
    """How a parameter is sharded: along an axis, with the indices that each rank holds."""

    axis: int
    indices: Sequence[Sequence[int]]

    def of_rank(self, parameter: Tensor, rank: int) -> Tensor:
        """A rank's shard of a full parameter."""
        return index_parameter(parameter, self.axis, self.indices[rank])


@dataclass(frozen=True)
class ShardPlan:
    """Which parameters of a model are sharded over a tensor-parallel group, by name."""

    group: ProcessGroup
    rank: int
    """The rank of this process in the group."""
    world_size: int
    shards: Mapping[str, ParameterShards]


def shard_plan(model: nn.Module) -> ShardPlan | None:
    """How a model is sharded by tensor parallelism; None where it is not."""
    found: ShardPlan | None = getattr(model, _PLAN, None)
    return found


def parallelize(model: Model, mesh: DeviceMesh) -> None:
    """Replace every part that can be sharded by this rank's shard; all ranks have the same weights before."""
    rank, world_size = mesh.get_local_rank(), mesh.size()
    if world_size == 1:
        return
    group = mesh.get_group()
    shards: dict[nn.Parameter, ParameterShards] = {}
    parts, positions = shardable_parts(model, world_size)
    with preserve_rng_state():
        for part in parts:
            plans = [
                plan
                for number in range(world_size)
                if (plan := part.tensor_parallel_shard(number, world_size)) is not None
            ]
            own = plans[rank].load_into(part)
            assert own is not None, f"{part.build_context.name} said that it can be sharded"
            use_fast_linear(own)
            _wrap_row_parallel(own, plans[rank].output_of(own), group, rank)
            _replace(model, part, own)
            for name, parameter in own.named_parameters():
                if name in plans[rank].shards:
                    indices = [tuple(plan.shards[name][1]) for plan in plans]
                    shards[parameter] = ParameterShards(plans[rank].shards[name][0], indices)
    for position in positions:
        _wrap_position_bias(position, group)
    # A layer that is used several times has several names.
    named = model.named_parameters(remove_duplicate=False)
    whole = ShardPlan(group, rank, world_size, {name: shards[it] for name, it in named if it in shards})
    setattr(model, _PLAN, whole)


def describe_shards(model: Model, world_size: int) -> str:
    """Which parts are sharded over so many ranks, in words; KitError where none can be."""
    sharded = {part.build_context.name for part in shardable_parts(model, world_size)[0]}
    found = [part.build_context.name for part in model.modules() if isinstance(part, (Attention, Feedforward))]
    names = list(dict.fromkeys(name for name in found if name not in sharded))
    if not sharded:
        raise KitError(
            f"training.tensor_parallel is {world_size}, and no part of this model can be shared by {world_size} "
            f"processes: {', '.join(names)} stay whole\n"
            "    set training.tensor_parallel to 1, or take heads, kv_heads and hidden widths that it divides"
        )
    replicated = f"; whole in each: {', '.join(names)}" if names else ""
    return f"{world_size} processes share {len(sharded)} parts{replicated}"


def shardable_parts(model: Model, world_size: int) -> tuple[list[Part], list[Position]]:
    """The parts that can be sharded, and the positions whose parameters get gradients from sharded attentions."""
    regularized = {name for regularizer in model.regularizers for name in getattr(regularizer, "head_counts", {})}
    shardable = [part for part in _shardable(model, world_size) if part.build_context.name not in regularized]
    # The gradient of a position's parameters comes from all heads: one all-reduce gives it where it adds a bias.
    positions, replicated_stacks = [], set()
    for position in _learned_positions(model):
        stack = position.build_context.stack
        attentions = [it for it in model.modules() if isinstance(it, Attention) and it.build_context.stack == stack]
        if position.locations - {"embed", "bias"} or any(part not in shardable for part in attentions):
            replicated_stacks.add(stack)
        else:
            positions.append(position)
    return (
        [it for it in shardable if not isinstance(it, Attention) or it.build_context.stack not in replicated_stacks],
        [it for it in positions if it.build_context.stack not in replicated_stacks],
    )


def _shardable(model: nn.Module, world_size: int) -> Iterator[Part]:
    """The outermost parts that have a shard, and share no parameter with another part."""
    owners: dict[nn.Parameter, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[parameter] = owners.get(parameter, 0) + 1
    inside: set[nn.Module] = set()
    for module in model.modules():  # a part comes before what is inside of it
        if module in inside or not isinstance(module, Part):
            continue
        is_untied = all(owners[parameter] == 1 for parameter in module.parameters())
        if is_untied and (plan := module.tensor_parallel_shard(0, world_size)) is not None and _loads(plan, module):
            inside.update(module.modules())
            yield module


def _loads(plan: TensorParallelShard, part: Part) -> bool:
    with preserve_rng_state():
        return plan.load_into(part) is not None


def _learned_positions(model: Model) -> list[Position]:
    """Positions with parameters that are used within attention."""
    found = [module for module in model.modules() if isinstance(module, Position)]
    return [it for it in found if it.locations - {"embed"} and any(value.requires_grad for value in it.parameters())]


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Replace a module wherever it is a child."""
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if child is old:
                module._modules[name] = new


def _wrap_row_parallel(part: Part, output_layer: nn.Linear, group: ProcessGroup, rank: int) -> None:
    """Let a shard return the output of the full part: operator f on its inputs, g on its output, then the bias."""
    output_layer.__class__ = LinearWithoutBias
    # A feed-forward part is also called through `transform`, which `forward` calls unless it is overridden.
    name = "transform" if type(part).forward is Feedforward.forward else "forward"
    local: Callable[..., Tensor] = getattr(part, name)

    def parallel(*inputs: Any) -> Tensor:
        copied = [copy_to_tensor_parallel(each, group) if isinstance(each, Tensor) else each for each in inputs]
        with fork_rng_per_tp_rank(rank, copied[0].device) if part.training else nullcontext():
            out = local(*copied)
        total: Tensor = _ReduceFromTensorParallel.apply(out, group)  # type: ignore[no-untyped-call]
        return total if output_layer.bias is None else total + output_layer.bias.to(total.dtype)

    setattr(part, name, parallel)


def _wrap_position_bias(position: Position, group: ProcessGroup) -> None:
    """All-reduce the gradient of a replicated position over the heads of all ranks."""
    own = position.bias

    def bias(q_at_BQ: Tensor, k_at_BK: Tensor) -> Tensor | None:
        added = own(q_at_BQ, k_at_BK)
        return None if added is None else copy_to_tensor_parallel(added, group)

    setattr(position, "bias", bias)  # noqa: B010 (a method that is replaced, on this one object)


class LinearWithoutBias(nn.Linear):
    """A row-parallel linear layer, whose bias is added once after the all-reduce."""

    def forward(self, x: Tensor) -> Tensor:
        """x: [..., I]; returns [..., O]."""
        return linear(x, self.weight)


def copy_to_tensor_parallel(x: Tensor, group: ProcessGroup) -> Tensor:
    """Operator f: x itself, which is the same on all ranks of the group; its gradient is the sum of theirs."""
    copied: Tensor = _CopyToTensorParallel.apply(x, group)  # type: ignore[no-untyped-call]
    return copied


class _CopyToTensorParallel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return _all_reduced(gradients[0], ctx.group), None


class _ReduceFromTensorParallel(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, group: ProcessGroup) -> Tensor:
        return _all_reduced(x, group)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return gradients[0], None


def _all_reduced(x: Tensor, group: ProcessGroup) -> Tensor:
    total = x.detach().clone(memory_format=torch.contiguous_format)
    if total.numel():
        distributed.all_reduce(total, group=group)
    return total
