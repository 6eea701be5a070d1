"""Left alignment: moves real tokens to the front of their rows, so that all padding is on the right.

Shapes: B batch, H heads, L tokens, X features.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import BatchLayout


class LeftAligned:
    """Gather indices from any padding to right padding and back; identities where rows are right-padded already."""

    def __init__(self, layout: BatchLayout) -> None:
        self.align_BL: Tensor | None = None
        self.layout = layout
        if layout.right_padded or layout.padding_mask is None:
            return
        self.align_BL = (~layout.padding_mask).to(torch.uint8).argsort(dim=1, stable=True)
        self.restore_BL = self.align_BL.argsort(1)
        features = {name: feature.gather(1, self.align_BL) for name, feature in layout.features.items()}
        shape = (layout.rows, layout.length)
        self.layout = BatchLayout(shape, layout.device, layout.padding_mask.gather(1, self.align_BL), True, 0, features)
        self.layout.token_index = layout.token_index.expand(shape).gather(1, self.align_BL)

    def align(self, x_BHLX: Tensor) -> Tensor:
        """[B, H, L, X] with real tokens first."""
        return x_BHLX if self.align_BL is None else _gather(x_BHLX, self.align_BL)

    def restore(self, x_BHLX: Tensor) -> Tensor:
        """Inverse of `align`."""
        return x_BHLX if self.align_BL is None else _gather(x_BHLX, self.restore_BL)


def _gather(x_BHLX: Tensor, index_BL: Tensor) -> Tensor:
    return x_BHLX.gather(2, index_BL[:, None, :, None].expand_as(x_BHLX))
