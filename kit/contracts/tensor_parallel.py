"""Tensor-parallel shard of a part (column/row split): Megatron-LM (Shoeybi et al. 2019), section 3.

The first matrices are split by output (columns), the last one by input (rows), so that one all-reduce of the outputs
suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from kit.contracts.part import Part


Slice = tuple[int, Sequence[int]]
"""The axis along which a parameter is split, and the indices that a shard holds, in order."""


@dataclass(frozen=True)
class TensorParallelShard:
    """One rank's shard of a part; the outputs of all shards sum to the output of the part."""

    shards: Mapping[str, Slice]
    """The slice of each parameter, by name; of every parameter but the bias of `output_layer`."""
    output_layer: str
    """The name of the row-parallel output layer; its bias is replicated, and added once to the sum."""
    build: Callable[[], Part]
    """Builds the shard, uninitialized."""

    def load_into(self, part: Part) -> Part | None:
        """Builds the shard and copies the part's parameters into it; None if the part has to be replicated.

        That is so if a variant adds parameters that are not in `shards`, or buffers that depend on the shard's sizes.
        """
        wanted: dict[str, Tensor] = {}
        for name, parameter in part.named_parameters():
            if name in self.shards:
                wanted[name] = index_parameter(parameter, *self.shards[name])
            elif name == f"{self.output_layer}.bias":
                wanted[name] = parameter
            else:
                return None
        anything = next(part.parameters())
        shard = self.build().to(anything.device, anything.dtype).train(part.training)
        wanted |= {name: value for name, value in part.state_dict().items() if name not in wanted}
        own = shard.state_dict()
        if {name: value.shape for name, value in own.items()} != {name: it.shape for name, it in wanted.items()}:
            return None
        shard.load_state_dict(wanted)
        for name, parameter in part.named_parameters():
            shard.get_parameter(name).requires_grad_(parameter.requires_grad)
        return shard

    def output_of(self, part: Part) -> nn.Linear:
        """Returns the row-parallel output layer."""
        output_layer = part.get_submodule(self.output_layer)
        assert isinstance(output_layer, nn.Linear), f"{type(part).__name__}.{self.output_layer} is not a linear layer"
        return output_layer


def index_parameter(parameter: Tensor, axis: int, indices: Sequence[int]) -> Tensor:
    """Selects indices of a parameter along an axis."""
    return parameter.detach().index_select(axis, torch.tensor(indices, dtype=torch.long, device=parameter.device))


def contiguous_shard(rank: int, world_size: int, count: int) -> list[int]:
    """Returns the indices among `count` that a rank holds, in equal contiguous shards."""
    size = count // world_size
    return list(range(rank * size, (rank + 1) * size))
