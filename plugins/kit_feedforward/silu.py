"""Feed-forward layer with SiLU (Elfwing et al. 2018), also called swish (Ramachandran et al. 2017)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit import MLP, MLPOptions


class SiluOptions(MLPOptions):
    """MLP with SiLU, x · sigmoid(x)."""

    use: Literal["silu"] = "silu"


class SiluFeedforward(MLP):
    """down(silu(up(x))), as in OPUS-MT."""

    options_type = SiluOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """x · sigmoid(x)."""
        return F.silu(hidden)
