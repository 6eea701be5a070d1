"""Associative recall: keys with their values, then one of the keys; what was its value? (Ba et al. 2016)."""

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
    """How many keys are given, each once."""
    keys: PositiveInt = 16
    """How many keys there are: k0, k1, …"""
    values: PositiveInt = 16
    """How many values there are: v0, v1, …"""

    @model_validator(mode="after")
    def _enough_keys(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"pairs ({self.pairs}) must not be more than keys ({self.keys}): a key is given once")
        return self


class RecallData(GeneratedData):
    """`k3 v1 k7 v4 ? k3` gives `v1`."""

    options_type = RecallOptions
    options: RecallOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Keys without repetition, values with."""
        keys = generator.permutation(self.options.keys)[: self.options.pairs]
        values = generator.integers(self.options.values, size=self.options.pairs)
        asked = int(generator.integers(self.options.pairs))
        listed = " ".join(f"k{key} v{value}" for key, value in zip(keys, values, strict=True))
        return Example(f"{listed} ? k{keys[asked]}", f"v{values[asked]}")
