"""Model parts: components that are torch modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kit.contracts.tensor_parallel import TensorParallelShard
from kit.plugin.component import BuildContext, Component, Dims, Options


class Part(Component, nn.Module):
    """A component that is a module of a model, with or without parameters."""

    def __init__(self, options: Options, dims: Dims, build_context: BuildContext) -> None:
        nn.Module.__init__(self)
        self.options = options
        self.dims = dims
        self.build_context = build_context
        self.losses: dict[str, list[Tensor]] = {}

    def init_pretrained(self) -> None:
        """Loads pretrained initial values, such as word vectors; not called when weights are restored."""

    def tensor_parallel_shard(self, rank: int, world_size: int) -> TensorParallelShard | None:
        """A rank's tensor-parallel shard of this part; None if every rank has to hold all of it."""
        return None

    def add_loss(self, name: str, value: Tensor) -> None:
        """Adds an auxiliary loss from within `forward`, under a name that is logged."""
        if self.training and torch.is_grad_enabled():
            self.losses.setdefault(name, []).append(value)

    def extra_repr(self) -> str:
        """The options that are not parts themselves."""
        values = self.options.model_dump(exclude={"use"}, exclude_none=True)
        return ", ".join(f"{name}={value}" for name, value in values.items() if not isinstance(value, (dict, list)))


def collect_losses(model: nn.Module) -> dict[str, Tensor]:
    """Returns the auxiliary losses that parts have added since the last call, summed by name, and clears them."""
    total: dict[str, Tensor] = {}
    for module in model.modules():
        if isinstance(module, Part) and module.losses:
            for name, values in module.losses.items():
                summed = torch.stack(values).sum()
                total[name] = total[name] + summed if name in total else summed
            module.losses = {}
    return total
