"""The contract of an optimizer, and its parameter groups: with or without weight decay, matrices or others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

from kit.kernels.devices import is_cpu, is_gpu
from kit.plugin.component import Component, Options


@dataclass
class ParameterGroup:
    """Parameters with the same optimizer settings."""

    decay: bool
    """Whether weight decay applies."""
    matrix: bool
    """Whether they are hidden matrices: two-dimensional, and neither embeddings nor an output head."""
    names: list[str] = field(default_factory=list)
    parameters: list[nn.Parameter] = field(default_factory=list)


def parameter_groups(model: nn.Module, *, decay_embeddings: bool = True) -> list[ParameterGroup]:
    """Sorts trainable parameters into groups.

    Parameters with fewer than two dimensions (biases, norm gains) have no weight decay, nor do those of a module (and
    its submodules) with `no_decay = True`; `decay_embeddings=False` exempts token and position embeddings as well.
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
    """For each parameter: whether it is exempt from decay, an embedding, or of an output head (of any owner)."""
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
    """Builds a torch optimizer for a model's parameters; built with its options alone."""

    kind = "optimizer"

    elementwise: ClassVar[bool] = False
    """Whether the update of an element depends on that element and its gradients alone (shards can be updated)."""

    def __init__(self, options: Options) -> None:
        self.options = options

    @abstractmethod
    def build(self, groups: list[ParameterGroup]) -> torch.optim.Optimizer:
        """One torch optimizer over all groups; the schedule multiplies the `lr` of every group."""


def torch_groups(groups: list[ParameterGroup], weight_decay: float) -> list[dict[str, Any]]:
    """The groups in the format of torch optimizers, with the weight decay of each."""
    return [
        {"params": list(group.parameters), "weight_decay": weight_decay if group.decay else 0.0} for group in groups
    ]


def is_sharded(groups: list[ParameterGroup]) -> bool:
    """Whether any parameter is sharded (a DTensor), which not every torch optimizer supports."""
    if not torch.distributed.is_available():
        return False
    from torch.distributed.tensor import DTensor

    return any(isinstance(parameter, DTensor) for group in groups for parameter in group.parameters)


def can_fuse(groups: list[ParameterGroup]) -> bool:
    """Whether torch's fused optimizer kernels support all these parameters; same results, faster."""
    parameters = [parameter for group in groups for parameter in group.parameters]
    return all((is_cpu(each) or is_gpu(each)) and each.is_floating_point() for each in parameters)
