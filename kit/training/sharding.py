"""Spreads a model over processes: each holds a piece of every layer, and a layer is whole only while it computes.

FSDP2, after ZeRO stage 3 (Rajbhandari et al. 2020; Zhao et al. 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from kit.contracts.residual import Residual
from kit.contracts.stack import Stack
from kit.model.families import Model
from kit.training.scalars import lift


def layers(model: nn.Module) -> list[nn.Module]:
    """The layers of every stack: what stands in the lists of modules that a stack owns itself."""
    found: list[nn.Module] = []
    for stack in model.modules():
        if isinstance(stack, Stack):
            lists = (child for child in stack.children() if isinstance(child, nn.ModuleList))
            found += [layer for several in lists for layer in several]
    return found


def shard(model: Model, mesh: DeviceMesh, mark: Callable[[str], None]) -> None:
    """Spread a model whose weights are the same on all processes; what is not in a layer stays together as one.

    Weights and gradients are exchanged in float32; what is computed in half precision is so by autocast, as elsewhere.
    """
    lift(model)
    for number, layer in enumerate(layers(model)):
        if any(True for _ in layer.parameters()):
            for residual in _used_outside(layer):
                fully_shard(residual, mesh=mesh)
                for method in ("enter", "leave"):
                    register_fsdp_forward_method(residual, method)
            fully_shard(layer, mesh=mesh)
            layer.register_forward_pre_hook(lambda *_, number=number: mark(f"computing layer {number + 1}"))
    # Tables that are tied are used at both ends of the model, so they are in one group, whole from begin to end.
    fully_shard(model, mesh=mesh, reshard_after_forward=False)


def _used_outside(layer: nn.Module) -> list[Residual]:
    """Residuals that begin or end the stream, outside of their layer's own computation, with numbers of their own."""
    return [
        module
        for module in layer.modules()
        if isinstance(module, Residual)
        and (type(module).enter is not Residual.enter or type(module).leave is not Residual.leave)
        and any(True for _ in module.parameters())
    ]


@contextmanager
def usable(model: nn.Module) -> Iterator[None]:
    """What is not in a layer is whole inside, so that a model can be used in other ways than by calling it."""
    if not isinstance(model, FSDPModule):
        yield
        return
    model.unshard()
    try:
        yield
    finally:
        model.reshard()
