"""Divided parts, put together again: in checkpoints, so that any number of processes can load them, and in norms.

All processes have to ask for the same in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.utils import get_total_norm

from kit.training.dividing import Cuts, Divided, divided
from kit.training.placing import whole


def joined(model: nn.Module, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by the names of parameters, as they are where nothing is divided."""
    how = divided(model)
    if how is None:
        return dict(values)
    return {name: _join(value, how.cuts[name], how) if name in how.cuts else value for name, value in values.items()}


def joined_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """The state of an optimizer, as it is where nothing is divided."""
    how, named = divided(model), _cuts_by_number(model, optimizer)
    if how is None:
        return state
    held = {}
    for number, entry in state["state"].items():
        parameter, cuts = named[number]
        held[number] = {
            name: _join(value, cuts, how) if cuts is not None and _alike(value, parameter) else value
            for name, value in entry.items()
        }
    return {**state, "state": held}


def own_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """What this process needs of a whole state."""
    how, named = divided(model), _cuts_by_number(model, optimizer)
    if how is None:
        return state
    held = {}
    for number, entry in state["state"].items():
        _, cuts = named[number]
        held[number] = {
            name: cuts.of(value, how.share) if cuts is not None and isinstance(value, Tensor) and value.dim() else value
            for name, value in entry.items()
        }
    return {**state, "state": held}


def own_share(model: nn.Module, name: str, value: Tensor) -> Tensor:
    """What this process needs of a whole parameter."""
    how = divided(model)
    return value if how is None or name not in how.cuts else how.cuts[name].of(value, how.share)


def writes(model: nn.Module) -> bool:
    """Whether this process is the one of those that share a layer that writes what they have in common."""
    how = divided(model)
    return how is None or how.share == 0


def gradient_norm(model: nn.Module) -> Tensor:
    """The norm of the gradient of the whole model, of whatever is whole on several processes counted once."""
    how = divided(model)
    found = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
    if how is None or not how.cuts:
        return _norm(list(found.values()))
    same = _norm([gradient for name, gradient in found.items() if name not in how.cuts])
    square = _norm([gradient for name, gradient in found.items() if name in how.cuts]).square()
    square = square.to(next(model.parameters()).device)
    distributed.all_reduce(square, group=how.group)
    return (same.square() + square).sqrt()


def _norm(gradients: list[Tensor]) -> Tensor:
    norm = get_total_norm(gradients)
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def _cuts_by_number(model: nn.Module, optimizer: torch.optim.Optimizer) -> list[tuple[Tensor, Cuts | None]]:
    """How each parameter is divided, in the order of an optimizer's groups."""
    how = divided(model)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [(it, None if how is None else how.cuts.get(names[id(it)])) for it in parameters]


def _alike(value: Any, parameter: Tensor) -> bool:
    return isinstance(value, Tensor) and value.shape == parameter.shape


def _join(value: Tensor, cuts: Cuts, how: Divided) -> Tensor:
    """The whole of what each process has a share of, in pieces as before where it was in pieces."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    own = whole(value).contiguous()
    shares = [torch.empty_like(own) for _ in range(how.of)]
    distributed.all_gather(shares, own, group=how.group)
    places = torch.tensor([place for each in cuts.places for place in each], device=own.device)
    beside = torch.cat(shares, cuts.axis)
    together = torch.empty_like(beside).index_copy_(cuts.axis, places, beside)
    if isinstance(value, DTensor):
        return distribute_tensor(together, value.device_mesh, value.placements)
    return together
