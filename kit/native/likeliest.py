"""The likeliest continuations of the rows of each text, straight from scores, by C++ of our own (likeliest.cpp).

Shapes: R rows, V choices, A texts of W rows each, N tokens that are never chosen, K best.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit.native.loading import Library

LIBRARY = Library("likeliest", {"likeliest": None})


def chooses(scores_RV: Tensor) -> bool:
    """Whether `likeliest` can be asked."""
    plain = scores_RV.device.type == "cpu" and scores_RV.dtype == torch.float32 and scores_RV.stride(1) == 1
    return LIBRARY.loaded and plain


def likeliest(scores_RV: Tensor, never_N: Tensor, live_AW: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of all rows of each text, best first: totals, which rows of the text, tokens; [A, K].

    live_AW: the log-probability of each row so far, in float64. Of equal totals the earlier place comes first.
    """
    most = min(count, live_AW.shape[1] * scores_RV.shape[1])
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.kit.likeliest(scores_RV, never_N, live_AW, most)
    return found
