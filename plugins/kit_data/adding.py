"""The adding problem: the sum of two marked numbers in a long row of numbers (Hochreiter and Schmidhuber 1997).

Original: real numbers in [0, 1], a squared error, 1/6 for a model that always says 1. Here numbers are whole, from 0 to
`largest`, a token each, and the sum is written as one token: a classification of 2·largest + 1 classes, because models
of the kit read and write tokens. A model that knows nothing of the marks does best by always writing the most likely
sum, `largest`, and is right in 1 / (largest + 1) of all cases; its loss is the entropy of the sum of two dice.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class AddingOptions(GeneratedOptions):
    """Options of `adding`."""

    use: Literal["adding"] = "adding"
    distance: int = Field(default=50, ge=4)
    """How many numbers are in the row; one of the first half and one of the second are marked."""
    largest: int = Field(default=9, ge=1)
    """The largest number."""


class AddingData(GeneratedData):
    """`3 +5 1 9 0 +2 7 4` gives `=7`: a plus marks the numbers to add."""

    options_type = AddingOptions
    options: AddingOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """One mark in each half."""
        count = self.options.distance
        numbers = generator.integers(self.options.largest + 1, size=count)
        marked = {int(generator.integers(count // 2)), int(generator.integers(count // 2, count))}
        words = [f"+{number}" if place in marked else str(number) for place, number in enumerate(numbers)]
        return Example(" ".join(words), f"={sum(int(numbers[place]) for place in marked)}")
