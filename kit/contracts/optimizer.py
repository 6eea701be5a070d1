"""The contract of an optimizer, and the groups of parameters it is given: which decay, and which are matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

from kit.component import Component, Options


@dataclass
class ParameterGroup:
    """Parameters that an optimizer treats alike."""

    decay: bool
    """Whether weight decay is meant for them."""
    matrix: bool
    """Whether they are matrices between layers: of two axes, and neither a table of tokens or positions nor a head."""
    names: list[str] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)


def parameter_groups(model: nn.Module, *, decay_embeddings: bool = True) -> list[ParameterGroup]:
    """Sort the parameters that are trained into groups.

    Parameters of fewer than two axes (biases, gains of norms) do not decay, nor do those of a module (and of all inside
    it) that says `no_decay = True`; `decay_embeddings=False` leaves out the tables of tokens and positions as well.
    """
    traits = _traits(model)
    groups: dict[tuple[bool, bool], ParameterGroup] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        opted_out, table, scores = traits[parameter]
        decay = parameter.ndim >= 2 and not opted_out and (decay_embeddings or not table)
        matrix = parameter.ndim == 2 and not table and not scores
        group = groups.setdefault((matrix, decay), ParameterGroup(decay=decay, matrix=matrix))
        group.names.append(name)
        group.parameters.append(parameter)
    return [groups[key] for key in sorted(groups, reverse=True)]


def _traits(model: nn.Module) -> dict[nn.Parameter, tuple[bool, bool, bool]]:
    """For each parameter: whether it opted out of decay, is a table, or belongs to a head; of several owners, any."""
    found: dict[nn.Parameter, tuple[bool, bool, bool]] = {}

    def visit(module: nn.Module, opted_out: bool, table: bool, scores: bool) -> None:
        kind = getattr(module, "kind", "")
        opted_out = opted_out or bool(getattr(module, "no_decay", False))
        table = table or kind in ("embedding", "position") or isinstance(module, nn.Embedding)
        scores = scores or kind == "head"
        for parameter in module.parameters(recurse=False):
            before = found.get(parameter, (False, False, False))
            found[parameter] = (before[0] or opted_out, before[1] or table, before[2] or scores)
        for child in module.children():
            visit(child, opted_out, table, scores)

    visit(model, False, False, False)
    return found


class Optimizer(Component, ABC):
    """Makes a torch optimizer for a model's parameters; built with its options alone."""

    kind = "optimizer"

    elementwise: ClassVar[bool] = False
    """Whether what becomes of a number depends on that number and its gradients alone, not on others of its matrix."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """One torch optimizer over all groups; `lr` of every group is the rate that a schedule multiplies."""


def torch_groups(groups: list[ParameterGroup], weight_decay: float) -> list[dict[str, Any]]:
    """The groups as torch's optimizers take them, with the weight decay of each."""
    return [
        {"params": list(group.parameters), "weight_decay": weight_decay if group.decay else 0.0} for group in groups
    ]


def is_sharded(groups: list[ParameterGroup]) -> bool:
    """Whether any parameter is spread over processes, as under FSDP; not every optimizer of torch can step those."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor

    return any(isinstance(parameter, DTensor) for group in groups for parameter in group.parameters)


def can_fuse(groups: list[ParameterGroup]) -> bool:
    """Whether torch can update all these parameters in one fused call, which is faster and gives the same numbers."""
    parameters = [parameter for group in groups for parameter in group.parameters]
    return all(parameter.device.type in ("cpu", "cuda") and parameter.is_floating_point() for parameter in parameters)
