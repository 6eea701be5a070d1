"""The adding problem: the sum of two marked numbers of a long sequence (Hochreiter and Schmidhuber 1997).

Original: real numbers in [0, 1], squared error (1/6 for the baseline that always predicts 1). Here numbers are
integers from 0 to `max_number`, one token each, and so is the sum: a classification with 2·max_number + 1 classes. The
baseline that ignores the marks predicts the most likely sum, `max_number`: its accuracy is 1 / (max_number + 1), and
its loss is the entropy of the sum of two dice.
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
    """The number of numbers in the sequence; one of each half is marked."""
    max_number: int = Field(default=9, ge=1)
    """The largest number."""


class AddingData(GeneratedData):
    """The adding problem: `3 +5 1 9 0 +2 7 4` has the target `=7`; a plus marks the numbers to add."""

    options_type = AddingOptions
    options: AddingOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws numbers, and one mark in each half."""
        count = self.options.distance
        numbers = generator.integers(self.options.max_number + 1, size=count)
        marked = {int(generator.integers(count // 2)), int(generator.integers(count // 2, count))}
        tokens = [f"+{number}" if index in marked else str(number) for index, number in enumerate(numbers)]
        return Example(" ".join(tokens), f"={sum(int(numbers[index]) for index in marked)}")
