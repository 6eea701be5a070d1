"""ListOps: the value of nested lists under minimum, maximum, median and sum modulo ten (Nangia, Bowman 2018)."""

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
    depth: int = Field(default=3, ge=1, le=20)
    """How deep lists are nested at most."""
    arguments: int = Field(default=5, ge=2, le=20)
    """The most values in a list; there are two at least."""
    nesting: float = Field(default=0.25, ge=0.0, le=1.0)
    """How likely a value is a list itself."""
    longest: int = Field(default=200, ge=10)
    """The most symbols in an example."""


class ListopsData(GeneratedData):
    """`[MAX 2 9 [MIN 4 7 ] 0 ]` is of class `9`; symbols have spaces between."""

    options_type = ListopsOptions
    options: ListopsOptions

    @property
    def task(self) -> Task:
        """Labelled."""
        return "labelled"

    def labels(self) -> tuple[str, ...]:
        """The ten digits."""
        return tuple("0123456789")

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """A list that is not too long."""
        while True:
            symbols, value = self._list(generator, self.options.depth)
            if len(symbols) <= self.options.longest:
                return Example(" ".join(symbols), label=str(value))

    def _list(self, generator: np.random.Generator, depth: int) -> tuple[list[str], int]:
        operator = OPERATORS[int(generator.integers(len(OPERATORS)))]
        symbols, values = [f"[{operator}"], []
        for _ in range(int(generator.integers(2, self.options.arguments + 1))):
            if depth > 1 and generator.random() < self.options.nesting:
                inside, value = self._list(generator, depth - 1)
            else:
                value = int(generator.integers(10))
                inside = [str(value)]
            symbols += inside
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
