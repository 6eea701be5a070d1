"""Associative recall: the value of a query key among key-value pairs (Ba et al. 2016)."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import PositiveInt, model_validator

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class RecallOptions(GeneratedOptions):
    """Options of `recall`."""

    use: Literal["recall"] = "recall"
    pairs: PositiveInt = 8
    """The number of key-value pairs; their keys are distinct."""
    keys: PositiveInt = 16
    """The number of distinct keys: k0, k1, …"""
    values: PositiveInt = 16
    """The number of distinct values: v0, v1, …"""

    @model_validator(mode="after")
    def _enough_keys(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"pairs ({self.pairs}) must not be more than keys ({self.keys}): a key is given once")
        return self


class RecallData(GeneratedData):
    """Associative recall: `k3 v1 k7 v4 ? k3` has the target `v1`."""

    options_type = RecallOptions
    options: RecallOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws keys without replacement, values with replacement."""
        keys = generator.permutation(self.options.keys)[: self.options.pairs]
        values = generator.integers(self.options.values, size=self.options.pairs)
        query = int(generator.integers(self.options.pairs))
        pairs = " ".join(f"k{key} v{value}" for key, value in zip(keys, values, strict=True))
        return Example(f"{pairs} ? k{keys[query]}", f"v{values[query]}")
