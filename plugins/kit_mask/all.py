"""Allowed by every one of several masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from kit import Both, Dims, Facts, Layout, Mask, MaskSlot, Options, Problem, Site


class AllOptions(Options):
    """A pair must be allowed by all of these."""

    use: Literal["all"] = "all"
    masks: list[MaskSlot] = Field(min_length=1)
    """The masks, in any order."""


class AllMask(Mask):
    """A pair must be allowed by all of its masks."""

    options_type = AllOptions
    options: AllOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.inner = Both(*(site.at("masks", n).build(mask, dims) for n, mask in enumerate(options.masks)))
        self.hides_future, self.needs = self.inner.hides_future, self.inner.needs
        self.shape = self.inner.shape

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """What each of the masks says."""
        for number, mask in enumerate(options.masks):
            yield from site.at("masks", number).check(mask, dims)

    @property
    def writable(self) -> bool:
        """As the masks say together."""
        return self.inner.writable

    def check_step(self, new: Layout) -> None:
        """As what it is made of says."""
        self.inner.check_step(new)

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """As the masks say together."""
        return self.inner.allows(q, k, facts)
