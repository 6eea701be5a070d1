"""Reaches any token in two steps: Generating Long Sequences with Sparse Transformers (Child et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor

from kit import Dims, Facts, Mask, Options, Problem, Site


class StridedOptions(Options):
    """Near keys, and a column of far ones. The paper adds the mask `causal`."""

    use: Literal["strided"] = "strided"
    stride: int = Field(default=64, ge=2)
    """How long the near part is, and how far the far ones are apart; about the square root of the length."""
    pattern: Literal["strided", "fixed"] = "strided"
    """Keys nearer than the stride and every stride-th, or the query's own block and the last tokens of every block."""
    summary: PositiveInt = 1
    """How many last tokens of each block everybody sees, in the fixed pattern."""


class StridedMask(Mask):
    """Both heads of the paper in one mask."""

    options_type = StridedOptions
    options: StridedOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """A stride past the longest text hides nothing, and a summary is shorter than its block."""
        if options.stride > dims.length:
            yield site.problem(
                f"the stride is {options.stride} and the longest text {dims.length}, so nothing would be hidden",
                "stride",
                hint=f"take about {max(2, round(dims.length**0.5))}",
            )
        if options.pattern == "fixed" and options.summary >= options.stride:
            yield site.problem(
                f"the last {options.summary} tokens of a block are its summary, and a block has {options.stride}",
                "summary",
                hint=f"take a summary of at most {options.stride - 1}",
            )

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """The near part or the far part."""
        stride = self.options.stride
        if self.options.pattern == "strided":
            back = q - k
            return (back.abs() < stride) | (back.remainder(stride) == 0)
        return (q // stride == k // stride) | (k.remainder(stride) >= stride - self.options.summary)
