"""Dilated sliding-window mask: Longformer (Beltagy et al. 2020), section 3.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Mask, MaskFeatures, Options, Problem


class DilatedOptions(Options):
    """Dilated window: a query sees every `step`-th key, `size` of them to a side."""

    use: Literal["dilated"] = "dilated"
    size: PositiveInt = 64
    """Visible keys to a side, the query's own included."""
    step: int = Field(default=2, ge=2)
    """Dilation: the distance between visible keys."""
    direction: Literal["both", "back"] = "both"
    """Both sides, or earlier keys only."""


class DilatedMask(Mask):
    """A window of size · step tokens that shows only every step-th of them."""

    options_type = DilatedOptions
    options: DilatedOptions

    def __init__(
        self, options: Any = None, dims: Dims | None = None, build_context: BuildContext | None = None
    ) -> None:
        super().__init__(options, dims, build_context)
        self.hides_future = self.options.direction == "back" or self.options.size == 1

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The window must fit into the maximum length."""
        if (options.size - 1) * options.step >= dims.length:
            yield build_context.problem(
                f"{options.size} keys, {options.step} tokens apart, reach past the longest sequence of {dims.length}",
                "size",
                hint=f"take a size of at most {(dims.length - 1) // options.step + 1}",
            )

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """q - k is a multiple of the step, less than size steps away."""
        back, size, step = q - k, self.options.size, self.options.step
        seen = (back.remainder(step) == 0) & (back.abs() < size * step)
        return seen & (back >= 0) if self.hides_future else seen
