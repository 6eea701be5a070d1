"""Base class of tasks that map a sequence of symbols, integers separated by spaces, to another such sequence."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from pydantic import PositiveInt, model_validator

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class SequenceOptions(GeneratedOptions):
    """Options of the sequence tasks."""

    symbols: PositiveInt = 10
    """The number of distinct symbols: 0, 1, 2, …"""
    min_length: PositiveInt = 1
    """The minimum sequence length."""
    max_length: PositiveInt = 20
    """The maximum sequence length."""
    test_max_length: PositiveInt | None = None
    """If given, test sequences are longer than `max_length`, up to this: length generalization."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length ({self.min_length}) must not be more than max_length ({self.max_length})")
        if self.test_max_length is not None and self.test_max_length <= self.max_length:
            raise ValueError(
                f"test_max_length ({self.test_max_length}) must be more than max_length ({self.max_length})"
            )
        return self


class SequenceData(GeneratedData):
    """Pairs of a random sequence and its target."""

    options: SequenceOptions

    @abstractmethod
    def target(self, symbols: list[int]) -> list[int]:
        """The target sequence of these symbols."""

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws a length uniformly, then the symbols."""
        options = self.options
        is_longer = split == "test" and options.test_max_length is not None
        min_length = options.max_length + 1 if is_longer else options.min_length
        max_length = options.test_max_length if is_longer and options.test_max_length else options.max_length
        length = int(generator.integers(min_length, max_length + 1))
        symbols = [int(symbol) for symbol in generator.integers(options.symbols, size=length)]
        return Example(" ".join(map(str, symbols)), " ".join(map(str, self.target(symbols))))
