"""Fixed chunks that see themselves only: block-local attention (Liu et al. 2018; Llama 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import Dims, Facts, Mask, Options, Problem, Site


class ChunkedOptions(Options):
    """The text is cut every `size` tokens, and a query sees its own chunk."""

    use: Literal["chunked"] = "chunked"
    size: PositiveInt = 128
    """How many tokens a chunk has."""


class ChunkedMask(Mask):
    """Hides other chunks."""

    options_type = ChunkedOptions
    options: ChunkedOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A chunk that holds every text hides nothing."""
        if options.size > dims.length:
            yield site.problem(
                f"a chunk has {options.size} tokens and the longest text {dims.length}, so it would hide nothing",
                "size",
                hint=f"take a size below {dims.length}, or leave the mask out",
            )

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """The same chunk."""
        return q // self.options.size == k // self.options.size
