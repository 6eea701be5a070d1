"""Divided parts, put together again: in checkpoints, so that any number of processes can load them, and in norms.

All processes have to ask for the same in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    return _changed(model, optimizer, state, _join)


def own_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> dict[str, Any]:
    """What this process needs of a whole state."""
    return _changed(model, optimizer, state, lambda value, cuts, how: cuts.of(value, how.share))


def own_share(model: nn.Module, name: str, value: Tensor) -> Tensor:
    """What this process needs of a whole parameter."""
    how = divided(model)
    return value if how is None or name not in how.cuts else how.cuts[name].of(value, how.share)


def writes(model: nn.Module) -> bool:
    """Whether this process is the one of those that share a layer that writes what they have in common."""
    how = divided(model)
    return how is None or how.share == 0


def gradient_norm(model: nn.Module, found: Mapping[str, Tensor]) -> Tensor:
    """The norm of the gradient of the whole model, of whatever is whole on several processes counted once.

    found: the gradients here, by the names of their parameters.
    """
    how = divided(model)
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


def _changed(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    state: dict[str, Any],
    change: Callable[[Tensor, Cuts, Divided], Tensor],
) -> dict[str, Any]:
    """A state in which all that goes with divided parameters is changed; single numbers, such as steps, stay."""
    how = divided(model)
    if how is None:
        return state
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    held = {}
    for number, entry in state["state"].items():
        cuts = how.cuts.get(names[id(parameters[number])])
        held[number] = {
            name: change(value, cuts, how) if cuts is not None and isinstance(value, Tensor) and value.dim() else value
            for name, value in entry.items()
        }
    return {**state, "state": held}


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
