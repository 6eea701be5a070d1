"""Intersection of masks: a pair must be allowed by all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field
from torch import Tensor

from kit import BatchLayout, Both, BuildContext, Dims, Mask, MaskFeatures, MaskSlot, Options, Problem


class AllOptions(Options):
    """Intersection of masks."""

    use: Literal["all"] = "all"
    masks: list[MaskSlot] = Field(min_length=1)
    """The masks, in any order."""


class AllMask(Mask):
    """Logical AND of its masks."""

    options_type = AllOptions
    options: AllOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.inner = Both(*(build_context.at("masks", n).build(mask, dims) for n, mask in enumerate(options.masks)))
        self.hides_future, self.needs = self.inner.hides_future, self.inner.needs
        self.shape = self.inner.shape

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Checks each of the masks."""
        for number, mask in enumerate(options.masks):
            yield from build_context.at("masks", number).check(mask, dims)

    @property
    def is_autoregressive(self) -> bool:
        """As the combined mask."""
        return self.inner.is_autoregressive

    def check_step(self, new: BatchLayout) -> None:
        """Checks the inner masks."""
        self.inner.check_step(new)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """As the combined mask."""
        return self.inner.allows(q, k, features)
