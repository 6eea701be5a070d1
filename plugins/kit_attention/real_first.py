"""Rows with their real tokens moved to the front, in order, so that a token's index is its place in the text.

Shapes: B rows, L tokens, X anything, on axes that may lie before or after the tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from kit import Layout


class RealFirst:
    """Moves what a layout describes, and back; does nothing where padding already stands last."""

    def __init__(self, layout: Layout) -> None:
        self.forth_BL: Tensor | None = None
        self.layout = layout
        if layout.right_padded or layout.valid is None:
            return
        self.forth_BL = (~layout.valid).to(torch.uint8).argsort(dim=1, stable=True)
        self.back_BL = self.forth_BL.argsort(1)
        facts = {name: fact.gather(1, self.forth_BL) for name, fact in layout.facts.items()}
        shape = (layout.rows, layout.length)
        self.layout = Layout(shape, layout.device, layout.valid.gather(1, self.forth_BL), True, 0, facts)
        self.layout.order = layout.order.expand(shape).gather(1, self.forth_BL)

    def forth(self, x_BHLX: Tensor) -> Tensor:
        """Heads of vectors, real tokens first."""
        return x_BHLX if self.forth_BL is None else _moved(x_BHLX, self.forth_BL)

    def back(self, x_BHLX: Tensor) -> Tensor:
        """What `forth` undoes."""
        return x_BHLX if self.forth_BL is None else _moved(x_BHLX, self.back_BL)


def _moved(x_BHLX: Tensor, index_BL: Tensor) -> Tensor:
    return x_BHLX.gather(2, index_BL[:, None, :, None].expand_as(x_BHLX))
