"""Drops whole heads in training: Scheduled DropHead (Zhou et al. 2020), without the schedule.

Shapes: B texts, H heads, Q queries, F width of a value.
"""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from kit import Regularizer, RegularizerOptions, Site


class DropHeadsOptions(RegularizerOptions):
    """Options of `drop_heads`; it adds no term to the loss, so its strength plays no part."""

    use: Literal["drop_heads"] = "drop_heads"
    share: float = Field(default=0.1, ge=0.0, lt=1.0)
    """How likely a head is dropped, for each text and layer anew."""


class DropHeadsRegularizer(Regularizer):
    """Heads that stay give more, so that their sum stays the same in the mean; one head always stays."""

    options_type = DropHeadsOptions
    options: DropHeadsOptions

    def heads(self, site: Site, out_BHQF: Tensor) -> Tensor:
        """Drop some."""
        rows, heads = out_BHQF.shape[:2]
        chance_BH = torch.rand(rows, heads, device=out_BHQF.device)
        stays_BH = chance_BH >= self.options.share
        stays_BH |= chance_BH == chance_BH.amax(1, keepdim=True)
        scale_BH = stays_BH * (heads / stays_BH.sum(1, keepdim=True))
        return out_BHQF * scale_BH.to(out_BHQF.dtype)[:, :, None, None]
