"""Comparison of the values of two keys, so that one position has to retrieve both.

The order of the values matters: a head that attends to both keys averages their values and loses the order, unless
the values lie in different subspaces. A model that retrieves one value only can guess from its magnitude.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from kit import Example, Split, Task
from kit_data.generated import GeneratedData, GeneratedOptions


class TwoLookupsOptions(GeneratedOptions):
    """Options of `two_lookups`."""

    use: Literal["two_lookups"] = "two_lookups"
    pairs: int = Field(default=6, ge=2)
    """The number of key-value pairs; their keys are distinct."""
    keys: PositiveInt = 8
    """The number of distinct keys: k0, k1, …"""
    values: int = Field(default=8, ge=2)
    """The number of distinct values: 0, 1, 2, …"""

    @model_validator(mode="after")
    def _enough_keys(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"pairs ({self.pairs}) must not be more than keys ({self.keys}): a key is given once")
        return self


class TwoLookupsData(GeneratedData):
    """Comparison of two values: `k3=1 k7=4 k0=2 first=k7 second=k0` has the class `more`; a pair is one token."""

    options_type = TwoLookupsOptions
    options: TwoLookupsOptions

    @property
    def task(self) -> Task:
        """The task: classification."""
        return "labelled"

    def labels(self) -> tuple[str, ...]:
        """The classes: the first value compared with the second."""
        return ("equal", "less", "more")

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws keys without replacement, values with replacement, and two different query keys."""
        keys = generator.permutation(self.options.keys)[: self.options.pairs]
        values = generator.integers(self.options.values, size=self.options.pairs)
        first, second = (int(index) for index in generator.permutation(self.options.pairs)[:2])
        pairs = " ".join(f"k{key}={value}" for key, value in zip(keys, values, strict=True))
        order = np.sign(int(values[first]) - int(values[second]))
        label = {-1: "less", 0: "equal", 1: "more"}[int(order)]
        return Example(f"{pairs} first=k{keys[first]} second=k{keys[second]}", label=label)
