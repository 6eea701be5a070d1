"""Random block mask: BigBird (Zaheer et al. 2020), section 2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from kit import BuildContext, Dims, Mask, MaskFeatures, Options, Problem

_WORD = 0xFFFFFFFF


class RandomBlocksOptions(Options):
    """Random blocks, for use beside other masks: `any: [window, global_tokens, random_blocks]`."""

    use: Literal["random_blocks"] = "random_blocks"
    size: PositiveInt = 16
    """Tokens per block."""
    count: PositiveInt = 3
    """Random blocks that each block draws, with replacement."""
    seed: NonNegativeInt = 0
    """Seed of the draws; the same on every machine."""


class RandomBlocksMask(Mask):
    """Each block draws links to blocks up to itself, and links are symmetric.

    Links depend on the seed alone, so they do not change while a sequence grows.
    """

    options_type = RandomBlocksOptions
    options: RandomBlocksOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, build_context: BuildContext) -> Iterator[Problem]:
        """A block must fit into the maximum length."""
        if options.size > dims.length:
            yield build_context.problem(
                f"a block has {options.size} tokens and the longest sequence {dims.length}, so it would hide nothing",
                "size",
                hint=f"take a size below {dims.length}",
            )

    def allows(self, q: Tensor, k: Tensor, features: MaskFeatures) -> Tensor:
        """The query's block drew the key's, or the other way round."""
        q_block, k_block = q // self.options.size, k // self.options.size
        links = [
            (self._drawn(q_block, number) == k_block) | (self._drawn(k_block, number) == q_block)
            for number in range(self.options.count)
        ]
        return reduce(or_, links)

    def _drawn(self, block: Tensor, number: int) -> Tensor:
        """A block up to the given one, by a hash of seed, block and number."""
        salt = ((number + 1) * 0x85EBCA6B + self.options.seed * 0xC2B2AE35) & _WORD
        mixed = (block + 1) * 0x9E3779B1 + salt
        for shift in (16, 15, 16):
            mixed = mixed & _WORD
            mixed = (mixed ^ (mixed >> shift)) * 0x45D9F3B
        return (mixed & _WORD) % (block + 1)
