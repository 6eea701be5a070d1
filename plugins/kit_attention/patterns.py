"""The fixed patterns that sparse attentions are made of, as masks, so that they compose with those of a recipe."""

from __future__ import annotations

from torch import Tensor

from kit import Both, Facts, Mask


class Near(Mask):
    """Allows keys less than `size` away, before or after."""

    def __init__(self, size: int) -> None:
        self.size = size

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """|q - k| < size."""
        return (q - k).abs() < self.size


class First(Mask):
    """Allows pairs of which one stands among the first tokens of the text."""

    def __init__(self, count: int) -> None:
        self.count = count

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """q or k below `count`."""
        return (q < self.count) | (k < self.count)


class Table(Mask):
    """Allows what a table says that was made for one batch."""

    def __init__(self, allowed_BQK: Tensor) -> None:
        self.allowed_BQK = allowed_BQK

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """As the table says."""
        return self.allowed_BQK


def within(pattern: Mask, mask: Mask | None) -> Mask:
    """What both a pattern and the masks of a recipe allow."""
    return pattern if mask is None else Both(pattern, mask)
