"""Divides the parts of a model that allow it among a few processes, each of which then computes its share of a layer.

Tensor parallelism, after Megatron-LM (Shoeybi et al. 2019). All else is whole, and the same, on every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.device_mesh import DeviceMesh

from kit.contracts.attention import Attention
from kit.contracts.division import Division, kept
from kit.contracts.feedforward import Feedforward
from kit.contracts.part import Part
from kit.contracts.position import Position
from kit.errors import KitError
from kit.matrices import speed_up
from kit.model.families import Model
from kit.training import randomness
from kit.training.summing import share_bias, share_out

_ATTRIBUTE = "_kit_divided"


@dataclass(frozen=True)
class Cuts:
    """How a parameter is divided: along which axis, and which places each share has."""

    axis: int
    places: Sequence[Sequence[int]]

    def of(self, whole: Tensor, share: int) -> Tensor:
        """What a share has of a whole tensor."""
        return kept(whole, self.axis, self.places[share])


@dataclass(frozen=True)
class Divided:
    """Which parameters of a model are divided, by name, and among which processes."""

    group: ProcessGroup
    share: int
    """Which of them this is."""
    of: int
    cuts: Mapping[str, Cuts]


def divided(model: nn.Module) -> Divided | None:
    """How a model was divided; None where it was not."""
    found: Divided | None = getattr(model, _ATTRIBUTE, None)
    return found


def divide(model: Model, mesh: DeviceMesh) -> None:
    """Keep this process's share of every part that can be divided; weights are the same on all processes before."""
    share, of = mesh.get_local_rank(), mesh.size()
    if of == 1:
        return
    group = mesh.get_group()
    cuts: dict[nn.Parameter, Cuts] = {}
    parts, positions = divisible(model, of)
    with randomness.untouched():
        for part in parts:
            divisions = [division for number in range(of) if (division := part.divided(number, of)) is not None]
            held = divisions[share].held(part)
            assert held is not None, f"{part.site.name} said that it can be divided"
            speed_up(held)
            share_out(held, divisions[share].end_of(held), group, share)
            _replace(model, part, held)
            for name, parameter in held.named_parameters():
                if name in divisions[share].cuts:
                    places = [tuple(division.cuts[name][1]) for division in divisions]
                    cuts[parameter] = Cuts(divisions[share].cuts[name][0], places)
    for position in positions:
        share_bias(position, group)
    # A layer that stands in several places has several names.
    named = model.named_parameters(remove_duplicate=False)
    setattr(model, _ATTRIBUTE, Divided(group, share, of, {name: cuts[it] for name, it in named if it in cuts}))


def told(model: Model, of: int) -> str:
    """Which parts so many processes share, for people; an error where there is none."""
    shared = {part.site.name for part in divisible(model, of)[0]}
    found = [part.site.name for part in model.modules() if isinstance(part, (Attention, Feedforward))]
    names = list(dict.fromkeys(name for name in found if name not in shared))
    if not shared:
        raise KitError(
            f"training.tensor is {of}, and no part of this model can be shared by {of} processes: {', '.join(names)} "
            "stay whole\n    set training.tensor to 1, or take heads, groups and hidden widths that it divides"
        )
    whole = f"; whole in each: {', '.join(names)}" if names else ""
    return f"{of} processes share {len(shared)} parts{whole}"


def divisible(model: Model, of: int) -> tuple[list[Part], list[Position]]:
    """The parts that can be divided, and the positions that learn from attentions that are."""
    watched = {name for regularizer in model.regularizers for name in getattr(regularizer, "shaped", {})}
    able = [part for part in _able(model, of) if part.site.name not in watched]
    # What a position learns within attention it learns from all heads: through one sum where it adds to scores.
    positions, bound = [], set()
    for position in _learned(model):
        stack = position.site.stack
        attentions = [it for it in model.modules() if isinstance(it, Attention) and it.site.stack == stack]
        if position.places() - {"embed", "bias"} or any(part not in able for part in attentions):
            bound.add(stack)
        else:
            positions.append(position)
    parts = [part for part in able if not isinstance(part, Attention) or part.site.stack not in bound]
    return parts, [position for position in positions if position.site.stack not in bound]


def _able(model: nn.Module, of: int) -> Iterator[Part]:
    """The outermost parts that say how they are divided, and share no parameter with any other."""
    owners: dict[nn.Parameter, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[parameter] = owners.get(parameter, 0) + 1
    inside: set[nn.Module] = set()
    for module in model.modules():  # a part comes before what is inside of it
        if module in inside or not isinstance(module, Part):
            continue
        alone = all(owners[parameter] == 1 for parameter in module.parameters())
        if alone and (division := module.divided(0, of)) is not None and _is_told(division, module):
            inside.update(module.modules())
            yield module


def _is_told(division: Division, part: Part) -> bool:
    with randomness.untouched():
        return division.held(part) is not None


def _learned(model: Model) -> list[Position]:
    """Positions with parameters that are used within attention."""
    found = [module for module in model.modules() if isinstance(module, Position)]
    return [it for it in found if it.places() - {"embed"} and any(value.requires_grad for value in it.parameters())]


def _replace(model: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Wherever a module stands."""
    for module in list(model.modules()):
        for name, child in module._modules.items():
            if child is old:
                module._modules[name] = new
