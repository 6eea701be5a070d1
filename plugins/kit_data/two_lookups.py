"""Two look-ups at once: which of two keys has the larger value, and by how much? One place has to find both values.

The answer is the class of `(first - second) mod values`, so that it matters which value belongs to which key: a head
that averages the two keys it looks at loses just that, unless it spends width on telling them apart.
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
    """How many keys there are: a, b, … as k0, k1, …"""
    values: int = Field(default=8, ge=2)
    """How many values there are, and as many classes."""

    @model_validator(mode="after")
    def _enough_keys(self) -> Self:
        if self.pairs > self.keys:
            raise ValueError(f"pairs ({self.pairs}) must not be more than keys ({self.keys}): a key is given once")
        return self


class TwoLookupsData(GeneratedData):
    """`k3=1 k7=4 k0=2 first=k7 second=k0` is of class `2`: a key and its value are one token."""

    options_type = TwoLookupsOptions
    options: TwoLookupsOptions

    @property
    def task(self) -> Task:
        """Labelled."""
        return "labelled"

    def labels(self) -> tuple[str, ...]:
        """Every difference."""
        return tuple(sorted(map(str, range(self.options.values))))

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Keys without repetition, values with; two different keys are asked for."""
        keys = generator.permutation(self.options.keys)[: self.options.pairs]
        values = generator.integers(self.options.values, size=self.options.pairs)
        first, second = (int(place) for place in generator.permutation(self.options.pairs)[:2])
        given = " ".join(f"k{key}={value}" for key, value in zip(keys, values, strict=True))
        answer = int(values[first] - values[second]) % self.options.values
        return Example(f"{given} first=k{keys[first]} second=k{keys[second]}", label=str(answer))
