"""What several steps of writing gave that were taken at once.

Shapes: T steps, D width.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Stretched:
    """Steps of a single row, each of which took the likeliest token."""

    log_T: Tensor
    """How likely each was, as a log-probability."""
    token_T: Tensor
    """What was taken; the last of them is not read yet."""
    vectors: Tensor
    """What the last layer made of the token that was read last, [1, 1, D]."""
