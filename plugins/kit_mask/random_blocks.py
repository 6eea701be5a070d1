"""Random links between blocks of tokens: Big Bird (Zaheer et al. 2020), section 2."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from kit import Dims, Facts, Mask, Options, Problem, Site

_WORD = 0xFFFFFFFF


class RandomBlocksOptions(Options):
    """For use beside other masks: `any: [window, global_tokens, random_blocks]`."""

    use: Literal["random_blocks"] = "random_blocks"
    size: PositiveInt = 16
    """How many tokens a block has."""
    count: PositiveInt = 3
    """How many links each block draws; two may fall on the same block."""
    seed: NonNegativeInt = 0
    """Chooses the links; the same seed gives the same links on every machine."""


class RandomBlocksMask(Mask):
    """Each block draws links to blocks no later than itself, and a link is seen from both ends.

    So the links depend on nothing but the seed: a text that grows keeps those that it had, however long it becomes.
    """

    options_type = RandomBlocksOptions
    options: RandomBlocksOptions

    @classmethod
    def check(cls, options: Any, dims: Dims, site: Site) -> Iterator[Problem]:
        """There must be blocks to choose from."""
        if options.size > dims.length:
            yield site.problem(
                f"a block has {options.size} tokens and the longest text {dims.length}, so it would hide nothing",
                "size",
                hint=f"take a size below {dims.length}",
            )

    def allows(self, q: Tensor, k: Tensor, facts: Facts) -> Tensor:
        """One of the two blocks drew the other."""
        q_block, k_block = q // self.options.size, k // self.options.size
        links = [
            (self._drawn(q_block, number) == k_block) | (self._drawn(k_block, number) == q_block)
            for number in range(self.options.count)
        ]
        return reduce(or_, links)

    def _drawn(self, block: Tensor, number: int) -> Tensor:
        """A block between the first and this one, by a hash of seed, block and number."""
        salt = ((number + 1) * 0x85EBCA6B + self.options.seed * 0xC2B2AE35) & _WORD
        mixed = (block + 1) * 0x9E3779B1 + salt
        for shift in (16, 15, 16):
            mixed = mixed & _WORD
            mixed = (mixed ^ (mixed >> shift)) * 0x45D9F3B
        return (mixed & _WORD) % (block + 1)
