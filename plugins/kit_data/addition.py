"""Addition of two integers, digit by digit."""

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
    """The maximum number of digits of a number; numbers of digits are drawn uniformly."""
    test_digits: int | None = Field(default=None, le=18)
    """If given, the longer number of a test example has more than `digits` digits, up to this many."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.test_digits is not None and self.test_digits <= self.digits:
            raise ValueError(f"test_digits ({self.test_digits}) must be more than digits ({self.digits})")
        return self


class AdditionData(GeneratedData):
    """Addition of two integers: `12+34` has the target `46`."""

    options_type = AdditionOptions
    options: AdditionOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws two numbers without leading zeros."""
        min_digits, max_digits = 1, self.options.digits
        if split == "test" and self.options.test_digits is not None:
            min_digits, max_digits = max_digits + 1, self.options.test_digits
        lengths = [int(generator.integers(min_digits, max_digits + 1)), int(generator.integers(1, max_digits + 1))]
        generator.shuffle(lengths)
        left, right = (_number(generator, length) for length in lengths)
        return Example(f"{left}+{right}", str(left + right))


def _number(generator: np.random.Generator, digits: int) -> int:
    low = 10 ** (digits - 1) if digits > 1 else 0
    return int(generator.integers(low, 10**digits))
