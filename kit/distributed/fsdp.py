"""FSDP2 for any stack of layers: which modules are sharded, and 0-d parameters, which FSDP2 cannot shard.

Checkpoints hold 0-d parameters as the unsharded model has them, so that any number of ranks can load them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard, register_fsdp_forward_method

from kit.contracts.stack import Stack
from kit.contracts.sublayer import Residual
from kit.distributed.state import full_tensor
from kit.model.families import Model

_UNSQUEEZED = "_kit_unsqueezed_scalars"
"""The attribute of a model that holds the names of its unsqueezed parameters."""


def shard(model: Model, mesh: DeviceMesh, report_progress: Callable[[str], None]) -> None:
    """Shard a model whose weights are the same on all ranks: each layer alone, and the rest together.

    Weights and gradients are exchanged in float32; computation in half precision is left to autocast, as elsewhere.
    """
    unsqueeze_scalars(model)
    for number, layer in enumerate(layers(model)):
        if any(True for _ in layer.parameters()):
            for residual in _residuals_used_outside(layer):
                fully_shard(residual, mesh=mesh)
                for method in ("begin_stream", "end_stream"):
                    register_fsdp_forward_method(residual, method)
            fully_shard(layer, mesh=mesh)
            layer.register_forward_pre_hook(lambda *_, number=number: report_progress(f"computing layer {number + 1}"))
    # Tied embeddings are used at both ends of the model, so the rest stays unsharded from its first use to its last.
    fully_shard(model, mesh=mesh, reshard_after_forward=False)


def layers(model: nn.Module) -> list[nn.Module]:
    """The layers of every stack: the modules of the lists that a stack owns itself."""
    found: list[nn.Module] = []
    for stack in model.modules():
        if isinstance(stack, Stack):
            lists = (child for child in stack.children() if isinstance(child, nn.ModuleList))
            found += [layer for several in lists for layer in several]
    return found


def _residuals_used_outside(layer: nn.Module) -> list[Residual]:
    """The residuals with parameters that begin or end the residual stream, outside of their layer's forward pass."""
    return [
        module
        for module in layer.modules()
        if isinstance(module, Residual)
        and (
            type(module).begin_stream is not Residual.begin_stream or type(module).end_stream is not Residual.end_stream
        )
        and any(True for _ in module.parameters())
    ]


@contextmanager
def unsharded(model: nn.Module) -> Iterator[None]:
    """Unshard what is not in a layer, so that a model can be used inside in other ways than by calling it."""
    if not isinstance(model, FSDPModule):
        yield
        return
    model.unshard()
    try:
        yield
    finally:
        model.reshard()


def unsqueeze_scalars(model: nn.Module) -> None:
    """Unsqueeze the 0-d parameters to [1]; what computes with one broadcasts it as before."""
    unsqueezed: dict[nn.Parameter, nn.Parameter] = {}
    names = [name for name, value in model.named_parameters(remove_duplicate=False) if value.dim() == 0]
    for module in model.modules():
        for name, value in list(module._parameters.items()):
            if value is not None and value.dim() == 0:
                new = unsqueezed.setdefault(value, nn.Parameter(value.detach().reshape(1), value.requires_grad))
                setattr(module, name, new)
    setattr(model, _UNSQUEEZED, frozenset(names))


def squeeze_scalars(model: nn.Module, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by parameter name, with those of unsqueezed parameters as 0-d tensors. Collective."""
    names: frozenset[str] = getattr(model, _UNSQUEEZED, frozenset())
    return {name: full_tensor(value).reshape(()) if name in names else value for name, value in values.items()}


def squeeze_optim_scalars(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state dict of an optimizer, with the state of unsqueezed parameters as 0-d tensors. Collective."""
    names: frozenset[str] = getattr(model, _UNSQUEEZED, frozenset())
    unsqueezed = {id(value) for name, value in model.named_parameters() if name in names}
    state = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    squeezed = {
        number: {
            name: full_tensor(value).reshape(())
            if id(parameters[number]) in unsqueezed and isinstance(value, Tensor)
            else value
            for name, value in entry.items()
        }
        for number, entry in state["state"].items()
    }
    return {**state, "state": squeezed}
