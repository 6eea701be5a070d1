"""Sliding-window mask: Longformer (Beltagy et al. 2020), section 3.1; Mistral 7B (Jiang et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Mask, MaskFeatures, Options, Problem


class WindowOptions(Options):
    """Sliding window: a query sees keys less than `size` tokens away."""

    use: Literal["window"] = "window"
    size: PositiveInt = 128
    """Visible keys to a side, the query's own included."""
    direction: Literal["both", "back"] = "both"
    """Both sides, or earlier keys only."""


class WindowMask(Mask):
    """Allows near keys."""

    options_type = WindowOptions
    options: WindowOptions

    def __init__(
        self, options: Any = None, dims: Dims | None = None, build_context: BuildContext | None = None
    ) -> None:
        super().__init__(options, dims, build_context)
        self.hides_future = self.options.direction == "back" or self.options.size == 1

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The window must not exceed the maximum length, or it would hide nothing."""
        if options.size > dims.length:
            yield build_context.problem(
                f"the window has {options.size} tokens and the longest sequence {dims.length}, so it would hide "
                "nothing",
                "size",
                hint=f"take a size of at most {dims.length}, or leave the mask out",
            )

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """|q - k| < size, and k <= q where the direction is `back`."""
        back = q - k
        return (back.abs() < self.options.size) & (back >= 0) if self.hides_future else back.abs() < self.options.size
