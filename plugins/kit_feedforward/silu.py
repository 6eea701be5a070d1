"""Feed-forward with x · sigmoid(x), called SiLU (Elfwing et al. 2018) or swish (Ramachandran et al. 2017)."""

from __future__ import annotations

from typing import Literal

import torch.nn.functional as F
from torch import Tensor

from kit import HiddenFeedforward, HiddenOptions


class SiluOptions(HiddenOptions):
    """Up, x · sigmoid(x), down."""

    use: Literal["silu"] = "silu"


class SiluFeedforward(HiddenFeedforward):
    """A smooth relu that dips below zero; OPUS-MT's translators have it."""

    options_type = SiluOptions

    def activate(self, hidden: Tensor) -> Tensor:
        """x · sigmoid(x)."""
        return F.silu(hidden)
