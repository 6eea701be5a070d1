"""How widely weights are spread, as a share of the most that is possible.

Shapes: B texts, H heads, Q queries, K keys, N queries that have a choice.
"""

from __future__ import annotations

import torch
from torch import Tensor


def entropy_share(weights_BHQK: Tensor, seen_BQ: Tensor) -> Tensor:
    """[N, H]: entropy over its largest value, ln n, of each real query that sees more than one key."""
    choosing_BQ = seen_BQ > 1
    weights_NHK = weights_BHQK.transpose(1, 2)[choosing_BQ]
    most_N1 = seen_BQ[choosing_BQ].to(weights_NHK.dtype).log()[:, None]
    floor = torch.finfo(weights_NHK.dtype).tiny  # the slope of w ln w runs away at 0
    share_NH: Tensor = -(weights_NHK * weights_NHK.clamp(min=floor).log()).sum(-1) / most_N1
    return share_NH
