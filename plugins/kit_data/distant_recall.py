"""Associative recall over a distance: pairs of keys and values, blanks, then several keys whose values are asked for.

After the multi-query recall of Arora et al. 2024 (MQAR), with all questions at the end: how many pairs a state of fixed
size can hold, and over what distance. A pair is one token, so that finding its key is finding its value; with keys and
values apart (`recall`) a model has to learn to join them first, which takes it far longer and says nothing of memory.
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
    """How many blanks stand between the pairs and the questions."""
    pairs: PositiveInt = 4
    """How many keys are given, each once."""
    asked: PositiveInt = 4
    """How many of them are asked for, each once."""
    keys: PositiveInt = 16
    """How many keys there are: k0, k1, …"""
    values: int = Field(default=16, ge=2)
    """How many values there are: v0, v1, …"""

    @model_validator(mode="after")
    def _enough(self) -> Self:
        if not self.asked <= self.pairs <= self.keys:
            raise ValueError(f"wanted asked ({self.asked}) ≤ pairs ({self.pairs}) ≤ keys ({self.keys})")
        return self


class DistantRecallData(GeneratedData):
    """`k3=v1 k7=v4 . . . ? k7 k3` gives `v4 v1`."""

    options_type = DistantRecallOptions
    options: DistantRecallOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Keys without repetition, values with."""
        options = self.options
        keys = generator.permutation(options.keys)[: options.pairs]
        values = generator.integers(options.values, size=options.pairs)
        order = generator.permutation(options.pairs)[: options.asked]
        words = [f"k{key}=v{value}" for key, value in zip(keys, values, strict=True)]
        words += ["."] * options.distance + ["?"] + [f"k{keys[place]}" for place in order]
        return Example(" ".join(words), " ".join(f"v{values[place]}" for place in order))
