"""Allowed by at least one of several masks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from kit import Dims, Either, Facts, Layout, Mask, MaskSlot, Options, Problem, Site


class AnyOptions(Options):
    """A pair must be allowed by one of these."""

    use: Literal["any"] = "any"
    masks: list[MaskSlot] = Field(min_length=1)
    """The masks, in any order."""


class AnyMask(Mask):
    """A pair must be allowed by one of its masks."""

    options_type = AnyOptions
    options: AnyOptions

    def __init__(self, options: Any, dims: Dims, site: Site) -> None:
        super().__init__(options, dims, site)
        self.inner = Either(*(site.at("masks", n).build(mask, dims) for n, mask in enumerate(options.masks)))
        self.hides_future, self.needs = self.inner.hides_future, self.inner.needs

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
