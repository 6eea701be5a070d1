"""Two look-ups at once: is the value of one key less or more than that of another? One place has to find both values.

It matters which value belongs to which key: a head that averages the two keys it looks at loses just that, unless it
spends width on telling them apart. A model that finds only one of the values can still guess from its size.
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
    """How many keys are given, each once."""
    keys: PositiveInt = 8
    """How many keys there are: k0, k1, …"""
    values: int = Field(default=8, ge=2)
    """How many values there are: 0, 1, 2, …"""

    @model_validator(mode="after")
    def _enough_keys(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"pairs ({self.pairs}) must not be more than keys ({self.keys}): a key is given once")
        return self


class TwoLookupsData(GeneratedData):
    """`k3=1 k7=4 k0=2 first=k7 second=k0` is of class `more`: a key and its value are one token."""

    options_type = TwoLookupsOptions
    options: TwoLookupsOptions

    @property
    def task(self) -> Task:
        """Labelled."""
        return "labelled"

    def labels(self) -> tuple[str, ...]:
        """How the first compares with the second."""
        return ("equal", "less", "more")

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Keys without repetition, values with; two different keys are asked for."""
        keys = generator.permutation(self.options.keys)[: self.options.pairs]
        values = generator.integers(self.options.values, size=self.options.pairs)
        first, second = (int(place) for place in generator.permutation(self.options.pairs)[:2])
        given = " ".join(f"k{key}={value}" for key, value in zip(keys, values, strict=True))
        answer = np.sign(int(values[first]) - int(values[second]))
        label = {-1: "less", 0: "equal", 1: "more"}[int(answer)]
        return Example(f"{given} first=k{keys[first]} second=k{keys[second]}", label=label)
