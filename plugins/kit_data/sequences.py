"""Tasks on sequences of symbols: numbers with spaces between, and an answer that is another such sequence."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np
from pydantic import PositiveInt, model_validator

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class SequenceOptions(GeneratedOptions):
    """Which sequences there are."""

    symbols: PositiveInt = 10
    """How many symbols there are: 0, 1, 2, …"""
    shortest: PositiveInt = 1
    """Symbols in the shortest sequence."""
    longest: PositiveInt = 20
    """Symbols in the longest sequence."""
    test_longest: PositiveInt | None = None
    """Where given, test sequences are longer than `longest`, up to this: can the model do lengths it never saw?"""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest ({self.shortest}) must not be more than longest ({self.longest})")
        if self.test_longest is not None and self.test_longest <= self.longest:
            raise ValueError(f"test_longest ({self.test_longest}) must be more than longest ({self.longest})")
        return self


class SequenceData(GeneratedData):
    """A sequence and what is to be made of it."""

    options: SequenceOptions

    @abstractmethod
    def answer(self, symbols: list[int]) -> list[int]:
        """What is to be written for these symbols."""

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """A sequence of a length drawn first, each length as likely."""
        options = self.options
        beyond = split == "test" and options.test_longest is not None
        low = options.longest + 1 if beyond else options.shortest
        high = options.test_longest if beyond and options.test_longest else options.longest
        length = int(generator.integers(low, high + 1))
        symbols = [int(symbol) for symbol in generator.integers(options.symbols, size=length)]
        return Example(" ".join(map(str, symbols)), " ".join(map(str, self.answer(symbols))))
