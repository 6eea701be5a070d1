"""The copy memory task: symbols to recall after blanks (Hochreiter and Schmidhuber 1997; Arjovsky et al. 2016).

The source is the symbols and `distance` blanks; the separator before the target is the signal to recall. The loss is
over the target only, so the memoryless baseline has ln(symbols) per symbol; papers that average over blanks too report
10·ln 8 / (distance + 20).
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
    """The number of blanks between the symbols and their recall."""
    length: PositiveInt = 10
    """The number of symbols to recall."""
    symbols: int = Field(default=8, ge=2)
    """The number of distinct symbols: 0, 1, 2, …"""


class CopyMemoryData(GeneratedData):
    """Copy memory: `3 1 4 . . . . .` has the target `3 1 4`."""

    options_type = CopyMemoryOptions
    options: CopyMemoryOptions

    def draw(self, generator: np.random.Generator, split: Split) -> Example:
        """Draws symbols with replacement."""
        drawn = generator.integers(self.options.symbols, size=self.options.length)
        symbols = " ".join(map(str, drawn))
        return Example(f"{symbols} {' '.join('.' * self.options.distance)}", symbols)
