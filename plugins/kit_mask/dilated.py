"""A window with gaps: Longformer (Beltagy et al. 2020), section 3.1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Dims, Facts, Mask, Options, Problem, Site


class DilatedOptions(Options):
    """A query sees every so many-th key, up to a number of them."""

    use: Literal["dilated"] = "dilated"
    size: PositiveInt = 64
    """How many keys a query sees to a side, its own included."""
    step: int = Field(default=2, ge=2)
    """How far these keys are apart."""
    direction: Literal["both", "back"] = "both"
    """To both sides, or only itself and what came before."""


class DilatedMask(Mask):
    """Reaches as far as a window of size times step, and sees as little as one of size."""

    options_type = DilatedOptions
    options: DilatedOptions

    def __init__(self, options: Any = None, dims: Dims | None = None, site: Site | None = None) -> None:
        super().__init__(options, dims, site)
        self.hides_future = self.options.direction == "back" or self.options.size == 1

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """Keys that no text is long enough for are a mistake."""
        if (options.size - 1) * options.step >= dims.length:
            yield site.problem(
                f"{options.size} keys, {options.step} tokens apart, reach past the longest text of {dims.length}",
                "size",
                hint=f"take a size of at most {(dims.length - 1) // options.step + 1}",
            )

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """q - k is a multiple of the step, less than size steps away."""
        back, size, step = q - k, self.options.size, self.options.step
        seen = (back.remainder(step) == 0) & (back.abs() < size * step)
        return seen & (back >= 0) if self.hides_future else seen
