"""Keys and values that several heads share: GQA (Ainslie et al. 2023).

Shapes: B rows, H heads, G groups of keys, Q queries, K keys, E width of a key or value.
"""

from __future__ import annotations

import torch
from torch import Tensor


def repeat_groups(x_BGKE: Tensor, like_BHQE: Tensor) -> Tensor:
    """Keys or values of G groups, repeated for the heads that share them: [B, H, K, E]."""
    heads, groups = like_BHQE.shape[1], x_BGKE.shape[1]
    return x_BGKE if heads == groups else torch.repeat_interleave(x_BGKE, heads // groups, 1)
