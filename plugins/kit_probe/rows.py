"""Which queries count, and means over them.

Shapes: H heads, Q queries, K keys.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import AttentionMap


def choosing(found: AttentionMap) -> Tensor:
    """[Q], true where a query sees more than one key: with one there is nothing to choose, so it tells nothing."""
    return found.allowed.sum(1) > 1


def mean_over(values_HQ: Tensor, rows_Q: Tensor) -> Tensor:
    """[H]: the mean over these queries; not a number where there are none."""
    return values_HQ[:, rows_Q].mean(1)


def offsets(found: AttentionMap) -> Tensor:
    """[Q, K]: how far each key stands from each query; negative for keys before it."""
    queries, keys = found.allowed.shape
    return torch.arange(keys)[None] - torch.arange(queries)[:, None]
