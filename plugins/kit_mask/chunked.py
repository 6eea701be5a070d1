"""Block-local (chunked) mask: attention within fixed chunks only (Liu et al. 2018; Llama 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Mask, MaskFeatures, Options, Problem


class ChunkedOptions(Options):
    """Chunked mask: a query sees its own chunk of `size` tokens."""

    use: Literal["chunked"] = "chunked"
    size: PositiveInt = 128
    """Tokens per chunk."""


class ChunkedMask(Mask):
    """Allows keys of the query's chunk."""

    options_type = ChunkedOptions
    options: ChunkedOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """A chunk must be smaller than the maximum length, or it would hide nothing."""
        if options.size > dims.length:
            yield build_context.problem(
                f"a chunk has {options.size} tokens and the longest sequence {dims.length}, so it would hide nothing",
                "size",
                hint=f"take a size below {dims.length}, or leave the mask out",
            )

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """q // size == k // size."""
        return q // self.options.size == k // self.options.size
