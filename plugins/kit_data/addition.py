"""Adding two numbers: `12+34` gives `46`."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class AdditionOptions(GeneratedOptions):
    """Options of `addition`."""

    use: Literal["addition"] = "addition"
    digits: int = Field(default=3, ge=2, le=18)
    """The most digits of a number; each count of digits is as likely."""
    test_digits: int | None = Field(default=None, le=18)
    """Where given, the larger number of a test has more than `digits` digits, up to this."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.test_digits is not None and self.test_digits <= self.digits:
            raise ValueError(f"test_digits ({self.test_digits}) must be more than digits ({self.digits})")
        return self


class AdditionData(GeneratedData):
    """A sum and its result, digit by digit."""

    options_type = AdditionOptions
    options: AdditionOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Two numbers without leading zeros."""
        most, least = self.options.digits, 1
        if split == "test" and self.options.test_digits is not None:
            most, least = self.options.test_digits, most + 1
        lengths = [int(generator.integers(least, most + 1)), int(generator.integers(1, most + 1))]
        generator.shuffle(lengths)
        left, right = (_number(generator, length) for length in lengths)
        return Example(f"{left}+{right}", str(left + right))


def _number(generator: np.random.Generator, digits: int) -> int:
    low = 10 ** (digits - 1) if digits > 1 else 0
    return int(generator.integers(low, 10**digits))
