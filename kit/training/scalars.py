"""Parameters that are a single number without an axis: FSDP cannot spread them, so there they get an axis of one.

Checkpoints have them as the model does without FSDP, so that any number of processes can load them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from kit.training.placing import whole

_NAMES = "_kit_lifted_scalars"


def lift(model: nn.Module) -> None:
    """Give every such parameter an axis; what computes with it sees the same number."""
    lifted: dict[nn.Parameter, nn.Parameter] = {}
    names = [name for name, value in model.named_parameters(remove_duplicate=False) if value.dim() == 0]
    for module in model.modules():
        for name, value in list(module._parameters.items()):
            if value is not None and value.dim() == 0:
                new = lifted.setdefault(value, nn.Parameter(value.detach().reshape(1), value.requires_grad))
                setattr(module, name, new)
    setattr(model, _NAMES, frozenset(names))


def lowered(model: nn.Module, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Values by the names of parameters, as they are without FSDP; all processes have to ask."""
    names: frozenset[str] = getattr(model, _NAMES, frozenset())
    return {name: whole(value).reshape(()) if name in names else value for name, value in values.items()}


def lowered_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The state of an optimizer, as it is without FSDP; all processes have to ask."""
    names: frozenset[str] = getattr(model, _NAMES, frozenset())
    ours = {id(value) for name, value in model.named_parameters() if name in names}
    state = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    held = {
        number: {
            name: whole(value).reshape(()) if id(parameters[number]) in ours and isinstance(value, Tensor) else value
            for name, value in entry.items()
        }
        for number, entry in state["state"].items()
    }
    return {**state, "state": held}
