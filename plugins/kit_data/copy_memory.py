"""Copy memory: a few symbols, a long silence, then the symbols again (Hochreiter and Schmidhuber 1997; Arjovsky 2016).

The source is the symbols and `distance` blanks; the separator that a decoder puts before its answer is the signal to
recall. Only the answer counts, so that a model that remembers nothing has a loss of ln(symbols) a symbol, where papers
that count the silence too print 10·ln 8 / (distance + 20).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from kit import Example, Split
from kit_data.generated import GeneratedData, GeneratedOptions


class CopyMemoryOptions(GeneratedOptions):
    """Options of `copy_memory`."""

    use: Literal["copy_memory"] = "copy_memory"
    distance: PositiveInt = 50
    """How many blanks stand between the symbols and the moment to recall them."""
    length: PositiveInt = 10
    """How many symbols are to be remembered."""
    symbols: int = Field(default=8, ge=2)
    """How many symbols there are: 0, 1, 2, …"""


class CopyMemoryData(GeneratedData):
    """`3 1 4 . . . . .` gives `3 1 4`."""

    options_type = CopyMemoryOptions
    options: CopyMemoryOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Symbols with repetition."""
        drawn = generator.integers(self.options.symbols, size=self.options.length)
        symbols = " ".join(map(str, drawn))
        return Example(f"{symbols} {' '.join('.' * self.options.distance)}", symbols)
