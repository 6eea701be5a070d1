"""What one of several processes keeps of a part that they share: rows or columns of its parameters, and what uses them.

Megatron-LM (Shoeybi et al. 2019), section 3: the first matrices are cut by output, the last one by input, so that what
the processes give only has to be summed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from kit.contracts.part import Part

Cut = tuple[int, Sequence[int]]
"""The axis that a parameter is cut along, and which places of it are kept, in order."""


@dataclass(frozen=True)
class Division:
    """One share of a part; the outputs of all shares sum to that of the whole."""

    cuts: Mapping[str, Cut]
    """What is kept of each parameter, by name; all have to be here but the bias of `ending`."""
    ending: str
    """The name of the linear layer that makes the output; its bias is whole everywhere, and added once to the sum."""
    narrow: Callable[[], Part]
    """Builds the part for what is kept."""

    def held(self, part: Part) -> Part | None:
        """The part for what is kept, with its numbers; None where not all of it is told, so that it has to stay whole.

        That is so where a variant adds parameters that it does not name, or has buffers that depend on how many share.
        """
        wanted: dict[str, Tensor] = {}
        for name, parameter in part.named_parameters():
            if name in self.cuts:
                wanted[name] = kept(parameter, *self.cuts[name])
            elif name == f"{self.ending}.bias":
                wanted[name] = parameter
            else:
                return None
        anything = next(part.parameters())
        narrow = self.narrow().to(anything.device, anything.dtype).train(part.training)
        wanted |= {name: value for name, value in part.state_dict().items() if name not in wanted}
        own = narrow.state_dict()
        if {name: value.shape for name, value in own.items()} != {name: it.shape for name, it in wanted.items()}:
            return None
        narrow.load_state_dict(wanted)
        for name, parameter in part.named_parameters():
            narrow.get_parameter(name).requires_grad_(parameter.requires_grad)
        return narrow

    def end_of(self, part: Part) -> nn.Linear:
        """The linear layer that makes the output."""
        ending = part.get_submodule(self.ending)
        assert isinstance(ending, nn.Linear), f"{type(part).__name__}.{self.ending} is no linear layer"
        return ending


def kept(whole: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """These places of a tensor along an axis."""
    return whole.detach().index_select(axis, torch.tensor(places, dtype=torch.long, device=whole.device))


def in_order(share: int, of: int, count: int) -> list[int]:
    """Which of `count` things a share has, where all have as many: those of the first come first."""
    size = count // of
    return list(range(share * size, (share + 1) * size))
