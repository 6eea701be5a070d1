"""ListOps: the value of nested lists under minimum, maximum, median and sum modulo 10 (Nangia and Bowman 2018)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from kit import Example, Split, Task
from kit_data.generated import GeneratedData, GeneratedOptions

OPERATORS = ("MIN", "MAX", "MED", "SM")


class ListopsOptions(GeneratedOptions):
    """Options of `listops`."""

    use: Literal["listops"] = "listops"
    max_depth: int = Field(default=3, ge=1, le=20)
    """The maximum nesting depth."""
    max_args: int = Field(default=5, ge=2, le=20)
    """The maximum number of values in a list; the minimum is 2."""
    nesting_probability: float = Field(default=0.25, ge=0.0, le=1.0)
    """The probability that a value is a nested list."""
    max_length: int = Field(default=200, ge=10)
    """The maximum number of symbols in an example."""


class ListopsData(GeneratedData):
    """ListOps: `[MAX 2 9 [MIN 4 7 ] 0 ]` has the class `9`; symbols are separated by spaces."""

    options_type = ListopsOptions
    options: ListopsOptions

    @property
    def task(self) -> Task:
        """The task: classification."""
        return "labelled"

    def labels(self) -> tuple[str, ...]:
        """The classes: the ten digits."""
        return tuple("0123456789")

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws lists until one has at most `max_length` symbols."""
        while True:
            symbols, value = self._list(generator, self.options.max_depth)
            if len(symbols) <= self.options.max_length:
                return Example(" ".join(symbols), label=str(value))

    def _list(self, generator: np.random.Generator, depth: int) -> tuple[list[str], int]:
        operator = OPERATORS[int(generator.integers(len(OPERATORS)))]
        symbols, values = [f"[{operator}"], []
        for _ in range(int(generator.integers(2, self.options.max_args + 1))):
            if depth > 1 and generator.random() < self.options.nesting_probability:
                inner, value = self._list(generator, depth - 1)
            else:
                value = int(generator.integers(10))
                inner = [str(value)]
            symbols += inner
            values.append(value)
        return [*symbols, "]"], evaluate(operator, values)


def evaluate(operator: str, values: list[int]) -> int:
    """The value of a list; the median of an even number of values is the mean of the middle two, rounded down."""
    match operator:
        case "MIN":
            return min(values)
        case "MAX":
            return max(values)
        case "MED":
            return int(np.median(values))
        case _:
            return sum(values) % 10
