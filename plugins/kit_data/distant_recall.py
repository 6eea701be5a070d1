"""Multi-query associative recall over a distance: key-value pairs, blanks, then several query keys.

As MQAR (Arora et al. 2024), with all queries at the end: measures how many pairs a state of fixed size holds, and over
what distance. A pair is one token, so that no layer is needed to bind a value to its key: with separate tokens
(`recall`) a model has to learn that first, which takes far longer and is independent of memory.
"""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class DistantRecallOptions(GeneratedOptions):
    """Options of `distant_recall`."""

    use: Literal["distant_recall"] = "distant_recall"
    distance: NonNegativeInt = 50
    """The number of blanks between the pairs and the queries."""
    pairs: PositiveInt = 4
    """The number of key-value pairs; their keys are distinct."""
    queries: PositiveInt = 4
    """The number of query keys; they are distinct."""
    keys: PositiveInt = 16
    """The number of distinct keys: k0, k1, …"""
    values: int = Field(default=16, ge=2)
    """The number of distinct values: v0, v1, …"""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if not self.queries <= self.pairs <= self.keys:
            raise ValueError(f"wanted queries ({self.queries}) ≤ pairs ({self.pairs}) ≤ keys ({self.keys})")
        return self


class DistantRecallData(GeneratedData):
    """Multi-query associative recall: `k3=v1 k7=v4 . . . ? k7 k3` has the target `v4 v1`."""

    options_type = DistantRecallOptions
    options: DistantRecallOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws keys without replacement, values with replacement."""
        options = self.options
        keys = generator.permutation(options.keys)[: options.pairs]
        values = generator.integers(options.values, size=options.pairs)
        order = generator.permutation(options.pairs)[: options.queries]
        tokens = [f"k{key}=v{value}" for key, value in zip(keys, values, strict=True)]
        tokens += ["."] * options.distance + ["?"] + [f"k{keys[index]}" for index in order]
        return Example(" ".join(tokens), " ".join(f"v{values[index]}" for index in order))
