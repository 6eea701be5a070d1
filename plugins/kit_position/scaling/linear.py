"""Positions squeezed together: Extending Context Window of Large Language Models (Chen et al. 2023)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import Options
from kit_position.scaling.contract import Scaling, Stretch, frequencies


class LinearOptions(Options):
    """Every position is divided by the factor."""

    use: Literal["linear"] = "linear"
    factor: Stretch
    """How many times as long texts become."""


class LinearScaling(Scaling):
    """All pairs slower alike."""

    options_type = LinearOptions
    options: LinearOptions

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """Divided by the factor."""
        return frequencies(self.width, base, device) / self.options.factor
