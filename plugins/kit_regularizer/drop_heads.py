"""Drops whole heads in training: Scheduled DropHead (Zhou et al. 2020), without the schedule.

Shapes: B sequences, H heads, Q queries, F width of a value.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import BuildContext, Regularizer, RegularizerOptions


class DropHeadsOptions(RegularizerOptions):
    """Options of `drop_heads`; it adds no auxiliary loss, so its strength has no effect."""

    use: Literal["drop_heads"] = "drop_heads"
    share: float = Field(default=0.1, ge=0.0, lt=1.0)
    """The probability that a head is dropped, drawn for each sequence and layer."""


class DropHeadsRegularizer(Regularizer):
    """DropHead: drops heads and rescales the others, so that the expected sum stays; one head is always kept."""

    options_type = DropHeadsOptions
    options: DropHeadsOptions

    def heads(self, build_context: BuildContext, out_BHQF: Tensor) -> Tensor:
        """Drop heads: out_BHQF [B, H, Q, F] with dropped heads set to zero."""
        rows, heads = out_BHQF.shape[:2]
        draw_BH = torch.rand(rows, heads, device=out_BHQF.device)
        kept_BH = draw_BH >= self.options.share
        kept_BH |= draw_BH == draw_BH.amax(1, keepdim=True)
        scale_BH = kept_BH * (heads / kept_BH.sum(1, keepdim=True))
        return out_BHQF * scale_BH.to(out_BHQF.dtype)[:, :, None, None]
