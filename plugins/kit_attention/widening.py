"""At least whole precision, for sums that need all their digits."""

from __future__ import annotations

import torch
from torch import Tensor


def widened(x: Tensor) -> Tensor:
    """x in float32, or as it is where that is wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
