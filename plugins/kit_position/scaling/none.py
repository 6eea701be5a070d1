"""RoPE without scaling."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from kit import Options
from kit_position.scaling.contract import Scaling, frequencies


class NoneOptions(Options):
    """No context extension."""

    use: Literal["none"] = "none"


class NoScaling(Scaling):
    """base^(-2i/width)."""

    options_type = NoneOptions

    def frequencies(self, base: float, device: torch.device) -> Tensor:
        """The unchanged frequencies: [P]."""
        return frequencies(self.width, base, device)
