"""Position interpolation, all frequencies divided by the factor (Chen et al. 2023)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import Options
from kit_position.scaling.contract import Scaling, Stretch, frequencies


class LinearOptions(Options):
    """Position interpolation: positions are divided by the factor."""

    use: Literal["linear"] = "linear"
    factor: Stretch
    """Factor by which the context is extended."""


class LinearScaling(Scaling):
    """Divides every frequency by the factor."""

    options_type = LinearOptions
    options: LinearOptions

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """The frequencies over the factor: [P]."""
        return frequencies(self.width, base, device) / self.options.factor
