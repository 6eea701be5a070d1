"""Strided and fixed sparse masks: Generating Long Sequences with Sparse Transformers (Child et al. 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Mask, MaskFeatures, Options, Problem


class StridedOptions(Options):
    """Sparse Transformer mask: near keys and a column of far ones; the paper adds the mask `causal`."""

    use: Literal["strided"] = "strided"
    stride: int = Field(default=64, ge=2)
    """Length of the local part and distance between far keys; about the square root of the length."""
    pattern: Literal["strided", "fixed"] = "strided"
    """`strided`: keys nearer than the stride and every stride-th. `fixed`: the own block and the end of every block."""
    summary: PositiveInt = 1
    """Last tokens of each block that all queries see, in the fixed pattern."""


class StridedMask(Mask):
    """Union of the patterns of both heads of the paper."""

    options_type = StridedOptions
    options: StridedOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """The stride must not exceed the maximum length, and a summary must be shorter than its block."""
        if options.stride > dims.length:
            yield build_context.problem(
                f"the stride is {options.stride} and the longest sequence {dims.length}, so nothing would be hidden",
                "stride",
                hint=f"take about {max(2, round(dims.length**0.5))}",
            )
        if options.pattern == "fixed" and options.summary >= options.stride:
            yield build_context.problem(
                f"the last {options.summary} tokens of a block are its summary, and a block has {options.stride}",
                "summary",
                hint=f"take a summary of at most {options.stride - 1}",
            )

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """The local part or the far part."""
        stride = self.options.stride
        if self.options.pattern == "strided":
            back = q - k
            return (back.abs() < stride) | (back.remainder(stride) == 0)
        return (q // stride == k // stride) | (k.remainder(stride) >= stride - self.options.summary)
