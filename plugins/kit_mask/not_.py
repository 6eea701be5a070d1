"""Allowed where another mask does not allow it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from torch import Tensor

from kit import Dims, Facts, Inverse, Layout, Mask, MaskSlot, Options, Problem, Site


class NotOptions(Options):
    """The opposite of a mask."""

    use: Literal["not"] = "not"
    mask: MaskSlot
    """The mask to turn around."""


class NotMask(Mask):
    """Hides what the other shows, and shows what it hides."""

    options_type = NotOptions
    options: NotOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.inner = Inverse(site.at("mask").build(options.mask, dims))
        self.needs = self.inner.needs

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """What the mask says."""
        yield from site.at("mask").check(options.mask, dims)

    def check_step(self, new: Layout) -> None:
        """As what it is made of says."""
        self.inner.check_step(new)

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """Where the other mask says no."""
        return self.inner.allows(q, k, facts)
