"""Only near keys: Longformer (Beltagy et al. 2020), section 3.1; Mistral 7B (Jiang et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import Dims, Facts, Mask, Options, Problem, Site


class WindowOptions(Options):
    """A query sees keys less than `size` tokens away."""

    use: Literal["window"] = "window"
    size: PositiveInt = 128
    """How many keys a query sees to a side, its own included: of 3, itself and two more."""
    direction: Literal["both", "back"] = "both"
    """To both sides, or only itself and what came before."""


class WindowMask(Mask):
    """Hides what is far."""

    options_type = WindowOptions
    options: WindowOptions

    def __init__(self, options: Any = None, dims: Dims | None = None, site: Site | None = None) -> None:
        super().__init__(options, dims, site)
        self.hides_future = self.options.direction == "back" or self.options.size == 1

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A window over more than the longest text hides nothing."""
        if options.size > dims.length:
            yield site.problem(
                f"the window has {options.size} tokens and the longest text {dims.length}, so it would hide nothing",
                "size",
                hint=f"take a size below {dims.length}, or leave the mask out",
            )

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """|q - k| < size, and k <= q where only what came before is seen."""
        back = q - k
        return (back.abs() < self.options.size) & (back >= 0) if self.hides_future else back.abs() < self.options.size
