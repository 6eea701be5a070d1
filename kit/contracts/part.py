"""A part that lives inside a model: a component that is a torch module, built for one site."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kit.component import Component, Dims, Options, Site
from kit.contracts.division import Division


class Part(Component, nn.Module):
    """A component with (or without) parameters."""

    def __init__(self, options: Options, dims: Dims, site: Site) -> None:
        nn.Module.__init__(self)
        self.options = options
        self.dims = dims
        self.site = site
        self.losses: dict[str, list[Tensor]] = {}

    def prepare(self) -> None:
        """Fetch what training begins from, such as pretrained vectors; not called where weights are loaded."""

    def divided(self, share: int, of: int) -> Division | None:
        """What process `share` of `of` keeps where they share each layer; None where every one has to have it whole."""
        return None

    def add_loss(self, name: str, value: Tensor) -> None:
        """Add to the training objective from within `forward`, under a name that is logged."""
        if self.training and torch.is_grad_enabled():
            self.losses.setdefault(name, []).append(value)

    def extra_repr(self) -> str:
        """The options that are not parts themselves."""
        values = self.options.model_dump(exclude={"use"}, exclude_none=True)
        return ", ".join(f"{name}={value}" for name, value in values.items() if not isinstance(value, (dict, list)))


def collect_losses(model: nn.Module) -> dict[str, Tensor]:
    """What the parts of a model added to the objective since the last time, summed by name."""
    total: dict[str, Tensor] = {}
    for module in model.modules():
        if isinstance(module, Part) and module.losses:
            for name, values in module.losses.items():
                summed = torch.stack(values).sum()
                total[name] = total[name] + summed if name in total else summed
            module.losses = {}
    return total
