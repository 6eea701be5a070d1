"""Complement of a mask: a pair is allowed where the other mask hides it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from torch import Tensor

from kit import BatchLayout, BuildContext, Dims, Inverse, Mask, MaskFeatures, MaskSlot, Options, Problem


class NotOptions(Options):
    """Complement of a mask."""

    use: Literal["not"] = "not"
    mask: MaskSlot
    """The mask to negate."""


class NotMask(Mask):
    """Logical NOT of a mask."""

    options_type = NotOptions
    options: NotOptions

    def __init__(self, options: Any, dims: Dims, build_context: BuildContext) -> None:
        super().__init__(options, dims, build_context)
        self.inner = Inverse(build_context.at("mask").build(options.mask, dims))
        self.needs = self.inner.needs

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """Checks the inner mask."""
        yield from build_context.at("mask").check(options.mask, dims)

    def check_step(self, new: BatchLayout) -> None:
        """Checks the inner mask."""
        self.inner.check_step(new)

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """Not allowed by the inner mask."""
        return self.inner.allows(q, k, features)
